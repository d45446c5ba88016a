//! The crate `timed`, run once more for every line that is read: answers how many seconds it took,
//! and writes its output at the end. scripts/rust_figures.py copies this into the crate's examples.

use std::io::{self, BufRead, Write};
use std::time::Instant;
use std::{error, fs};

use timed::{Layer, Workspace, OUTPUT_NUMBERS};

fn floats(path: &str) -> io::Result<Vec<f32>> {
    let bytes = fs::read(path)?;
    Ok(bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect())
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let (input, weight) = (floats("input.bin")?, floats("weight.bin")?);
    let (layer, mut workspace) = (Layer::new(&weight)?, Workspace::new(1)?);
    let mut output = vec![0.0; OUTPUT_NUMBERS];
    for line in io::stdin().lock().lines() {
        line?;
        layer.run(&input, None, &mut output, &mut workspace)?; // into the caches
        let begun = Instant::now();
        layer.run(&input, None, &mut output, &mut workspace)?;
        println!("{}", begun.elapsed().as_secs_f64());
        io::stdout().flush()?;
    }
    fs::write("output.bin", output.iter().flat_map(|y| y.to_ne_bytes()).collect::<Vec<u8>>())?;
    Ok(())
}
