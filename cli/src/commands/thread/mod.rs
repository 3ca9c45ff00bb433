//! `turnfold thread`: inspects, replays, verifies and forks threads.
//!
//! Commands go through [`Source`], but `import` and `cost` need the database, and `fork`, `reconcile` and `events --follow` always use
//! a running API, because workers must act.

mod bisect;
mod cost;
mod delete;
mod diff;
pub(crate) mod events;
mod explain;
mod fork;
mod fork_list;
mod hold;
mod list;
mod prompt;
mod reconcile;
mod replay;
mod search;
mod show;
mod transfer;
mod verify;

use store::Store;

pub(super) use self::reconcile::verdict;
pub(crate) use self::show::status_of;
use super::{
    Context, follow,
    source::{self, Source},
    whatif::refuse_changes,
};
use crate::{
    args::Thread,
    exit::{CliError, Exit},
};

pub(crate) async fn run(ctx: Context, command: Thread) -> anyhow::Result<Exit> {
    let ctx = &ctx;
    let reader = async |id: &str| {
        let source = Source::open(ctx).await?;
        let id = source.id_of(id).await?;
        anyhow::Ok((source, id))
    };
    match command {
        Thread::List { held: true, .. } => hold::list(ctx, Source::open(ctx).await?.client()).await,
        Thread::List { status, filter, order, limit, held: false } => {
            list::run(ctx, &Source::open(ctx).await?, status, filter.as_deref(), order, limit).await
        }
        Thread::Search { words, limit } => {
            search::run(ctx, Source::open(ctx).await?.client(), &words.join(" "), limit).await
        }
        Thread::Show { id } => {
            let (source, id) = reader(&id).await?;
            show::show(ctx, &source, id).await
        }
        Thread::Events { id, from, limit: _, follow: true } => {
            let client = ctx.client()?;
            let id = source::named(&client, &id).await?;
            Ok(fork::exit_of(&follow::thread(ctx, &client, &id, from).await?))
        }
        Thread::Events { id, from, limit, follow: false } => {
            let (source, id) = reader(&id).await?;
            events::run(ctx, &source, id, from, limit).await
        }
        Thread::State { id, at } => {
            let (source, id) = reader(&id).await?;
            show::state(ctx, &source, id, at).await
        }
        Thread::Replay { id, prompts } => {
            refuse_changes(&ctx.sources)?;
            let (source, id) = reader(&id).await?;
            replay::run(ctx, &source, id, prompts).await
        }
        Thread::Verify { id } => {
            let (source, id) = reader(&id).await?;
            verify::run(ctx, &source, id).await
        }
        Thread::Why { id, at } => {
            let (source, id) = reader(&id).await?;
            explain::run(ctx, source.client(), id, at).await
        }
        Thread::Prompt { id, at, full } => {
            let (source, id) = reader(&id).await?;
            prompt::run(ctx, source.client(), id, at, full).await
        }
        Thread::Diff { left, right, view } => {
            let (source, left) = reader(&left).await?;
            let right = source.id_of(&right).await?;
            diff::run(ctx, &source, (left, right), view.or_all()).await
        }
        Thread::Bisect { id, condition, diverges: _, builds } => {
            let (source, id) = reader(&id).await?;
            match builds.is_empty() {
                true => bisect::event(ctx, &source, id, condition.as_deref()).await,
                false => bisect::builds(ctx, id, &builds).await,
            }
        }
        Thread::Cost { by, order, top, selection } => {
            let view = cost::View { by, order, top: top.map(usize::from) };
            cost::run(ctx, &database_only(ctx, "thread cost").await?, view, selection).await
        }
        Thread::Export { id, html: false, .. } => {
            let (source, id) = reader(&id).await?;
            transfer::export(source.client(), id).await
        }
        Thread::Export { id, html: true, redact } => {
            let (source, id) = reader(&id).await?;
            transfer::page(source.client(), id, redact).await
        }
        Thread::Import { file, as_new, go_on } => {
            let options = transfer::ImportOptions { as_new, go_on };
            transfer::import(ctx, &database_only(ctx, "thread import").await?, &file, options).await
        }
        Thread::Fork(args) => fork::run(ctx, args).await,
        Thread::Delete { id, yes, reason } => {
            delete::run(ctx, &Source::open(ctx).await?, &id, yes, reason.as_deref()).await
        }
        Thread::Hold { id, reason } => {
            let (source, id) = reader(&id).await?;
            hold::place(ctx, source.client(), id, reason).await
        }
        Thread::Release { id, reason } => {
            let (source, id) = reader(&id).await?;
            hold::release(ctx, source.client(), id, reason.as_deref()).await
        }
        Thread::Reconcile(args) => reconcile::run(ctx, args).await,
    }
}

/// Opens the database for a command that has no counterpart in the API, and refuses an address of the API.
async fn database_only(ctx: &Context, command: &str) -> anyhow::Result<Store> {
    if ctx.url.as_deref().is_some_and(|url| !url.is_empty()) {
        let message = format!(
            "`{command}` needs the database and cannot run through the API\nhint: leave out --url and TURNFOLD_URL, and run \
             it where store.url is configured"
        );
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    ctx.store().await
}
