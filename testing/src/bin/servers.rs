//! Holds a PostgreSQL and a Redis until its input ends: for a person who wants both for a while, and for the
//! tests of this crate.

use std::io::{self, Read, Write};

use testing::{Postgres, Redis};

fn main() -> io::Result<()> {
    let postgres = Postgres::start();
    let redis = Redis::start();
    writeln!(io::stdout(), "{}\n{}", postgres.url(), redis.url())?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
