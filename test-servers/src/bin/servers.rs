//! Holds a PostgreSQL and a Redis until standard input ends, and prints their URLs: for manual use, and for the tests of this
//! crate. With the argument `shared`, prints the URL of a database on the shared PostgreSQL instead.

use std::io::{self, Read, Write};

use test_servers::{Postgres, Redis};

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("shared") {
        let postgres = Postgres::shared();
        writeln!(io::stdout(), "{}", postgres.url())?;
        return io::stdin().read_to_end(&mut Vec::new()).map(drop);
    }
    let postgres = Postgres::start();
    let redis = Redis::start();
    writeln!(io::stdout(), "{}\n{}", postgres.url(), redis.url())?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
