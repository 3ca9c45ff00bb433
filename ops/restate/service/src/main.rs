//! A service of Restate whose handler runs durable steps one after the other, each stored before the next begins.
//!
//! It listens on a free port of 127.0.0.1, which it prints.

use std::io::Write as _;

use restate_sdk::prelude::*;
use tokio::net::TcpListener;

/// The allocator of turnfold's binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Turn;

#[service]
impl Turn {
    /// Runs this number of steps, each of which answers at once. Returns the number of answers.
    #[handler]
    async fn run(&self, ctx: Context<'_>, steps: u64) -> HandlerResult<u64> {
        let mut answers = 0;
        for _ in 0..steps {
            let answer: String = ctx.run(async || Ok("call 1".to_owned())).name("call").await?;
            answers += u64::from(answer == "call 1");
        }
        Ok(answers)
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
    HttpServer::new(Endpoint::builder().bind(Turn).build()).serve(listener).await;
    Ok(())
}
