//! Prints the circles, measures and offending lines of the paths given as arguments; without any, of the current folder.

use std::{
    env,
    io::{self, Write},
    path::Path,
};

fn main() -> io::Result<()> {
    let mut paths: Vec<String> = env::args().skip(1).collect();
    if paths.is_empty() {
        paths.push(".".to_owned());
    }
    for path in paths {
        let circles = prose::Circle::read(Path::new(&path))?;
        circles.iter().try_for_each(|circle| write!(io::stdout(), "{circle}"))?;
        let report = prose::Report::read(Path::new(&path))?;
        write!(io::stdout(), "{report}")?;
    }
    Ok(())
}
