/* As much of ap_int, and of what ac_int shares with it, as the transforms take: sums are one bit
   wider, shifts are not, and what is assigned loses the bits that its type has no room for. */
#include <cstdint>

template <int W>
struct ap_int {
    static_assert(W > 0 && W < 64, "bits");
    int64_t value;
    ap_int() : value(0x5a5a) {}
    ap_int(int64_t x) : value(wrapped(x)) {}
    template <int V>
    ap_int(const ap_int<V> &other) : value(wrapped(other.value)) {}
    static int64_t wrapped(int64_t x) { return (int64_t)((uint64_t)x << (64 - W)) >> (64 - W); }
    ap_int operator<<(int by) const { return ap_int((int64_t)((uint64_t)value << by)); }
    ap_int operator>>(int by) const { return ap_int(value >> by); }
    ap_int<W + 1> operator-() const { return ap_int<W + 1>(-value); }
};

constexpr int wider(int a, int b) { return (a > b ? a : b) + 1; }

template <int A, int B>
ap_int<wider(A, B)> operator+(const ap_int<A> &a, const ap_int<B> &b) {
    return ap_int<wider(A, B)>(a.value + b.value);
}
template <int A, int B>
ap_int<wider(A, B)> operator-(const ap_int<A> &a, const ap_int<B> &b) {
    return ap_int<wider(A, B)>(a.value - b.value);
}
