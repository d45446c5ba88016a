include!("f4_3.rs");

fn main() {
    let image = std::array::from_fn(|i| std::array::from_fn(|j| ((6 * i + j) * 7 % 11) as Real - 5.0));
    let kernel = std::array::from_fn(|i| std::array::from_fn(|j| ((3 * i + j) * 5 % 7) as Real - 3.0));
    let (v, u) = (winogen_f4_3_input_2d(&image), winogen_f4_3_filter_2d(&kernel));
    let p = std::array::from_fn(|i| std::array::from_fn(|j| v[i][j] * u[i][j]));
    for row in winogen_f4_3_output_2d(&p) {
        for y in row {
            println!("{}", y);
        }
    }
}
