/* Runs tiny.hpp on jthreads, in parts that any thread takes, and says how bad sizes are refused. */
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "tiny.hpp"

namespace {

std::vector<float> read(const char *path, std::size_t numbers)
{
    std::vector<float> array(numbers);
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char *>(array.data()), static_cast<std::streamsize>(4 * numbers));
    if (!file) throw std::runtime_error(path);
    return array;
}

template <class Call> void print_refusal(Call call)
{
    try {
        call();
        std::puts("nothing was refused");
    } catch (const std::invalid_argument &problem) {
        std::puts(problem.what());
    }
}

}    // namespace

int main()
{
    const auto input = read("input.bin", tiny::input_numbers);
    const auto bias = read("bias.bin", tiny::bias_numbers);
    const auto add = read("add.bin", tiny::add_numbers);
    const tiny::layer conv(read("weight.bin", tiny::weight_numbers));
    std::vector<float> one(tiny::output_numbers, -1), output(tiny::output_numbers, -2);
    conv.run(input, bias, add, one, tiny::workspace(1));

    for (int parts = 1; parts <= 7; parts++) {
        tiny::workspace workspace(parts);
        std::fill(output.begin(), output.end(), -2.0f);
        std::atomic<int> taken = 0;
        {
            std::vector<std::jthread> threads;
            for (int i = 0; i < 3; i++)
                threads.emplace_back([&] {
                    for (int part; (part = parts - 1 - taken++) >= 0;)
                        conv.run_part(input, bias, add, output, workspace, part);
                });
        }
        if (std::memcmp(one.data(), output.data(), 4 * tiny::output_numbers)) return 1;
    }
    std::ofstream("output.bin", std::ios::binary)
        .write(reinterpret_cast<const char *>(one.data()), 4 * tiny::output_numbers);

    tiny::workspace workspace(2);
    const std::span<const float> few(input.data(), 5);
    print_refusal([&] { tiny::workspace(0); });
    print_refusal([&] { tiny::layer{few}; });
    print_refusal([&] { conv.run(few, bias, add, output, workspace); });
    print_refusal([&] { conv.run(input, few, add, output, workspace); });
    print_refusal([&] { conv.run(input, bias, few, output, workspace); });
    print_refusal([&] { conv.run_part(input, bias, add, output, workspace, 2); });
    conv.run(input, {}, add, output, workspace);
    return std::memcmp(one.data(), output.data(), 4 * tiny::output_numbers) == 0 ? 2 : 0;
}
