include("f4_3.jl")

image = [Float32(((6i + j) * 7) % 11 - 5) for i in 0:5, j in 0:5]
kernel = [Float32(((3i + j) * 5) % 7 - 3) for i in 0:2, j in 0:2]
y = winogen_f4_3_output_2d(winogen_f4_3_input_2d(image) .* winogen_f4_3_filter_2d(kernel))
foreach(println, permutedims(y))
