//! The changes of a what-if, as flags name them.

use audit::whatif::Changes;

use crate::{
    commands::Context,
    config::Sources,
    exit::{CliError, Exit},
};

const STRATEGIES: &str = "strategies";

/// Fails if a flag changes the configuration of a strategy: what replays a log takes it from the log.
pub(in crate::commands) fn refuse_changes(sources: &Sources) -> anyhow::Result<()> {
    refuse(sources, |key| {
        format!(
            "a replay takes the configuration of a strategy from each log\n\
             hint: turnfold whatif --set {key}=VALUE replays with a changed configuration"
        )
    })
}

/// Fails with this reason if a flag changes the configuration of a strategy.
pub(super) fn refuse(sources: &Sources, why: impl Fn(&str) -> String) -> anyhow::Result<()> {
    let Some((key, _)) = changed_keys(sources).next() else { return Ok(()) };
    Err(CliError::with_exit(Exit::Usage, format!("{key} would have no effect: {}", why(key))))
}

/// The keys of strategies that flags set, split at the dots.
fn changed_keys(sources: &Sources) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let keys = sources.flags.iter().filter_map(|flag| Some(flag.sets.as_ref()?.0.as_str()));
    let split = keys.map(|key| (key, key.split('.').collect::<Vec<_>>()));
    split.filter(|(_, path)| path.first() == Some(&STRATEGIES))
}

/// Returns the changes that the flags ask for. The values are those of the checked settings.
pub(super) fn changes(ctx: &Context) -> anyhow::Result<Changes> {
    let mut changes = Changes::default();
    for (key, mut path) in changed_keys(&ctx.sources) {
        if let Some(last) = path.last_mut().filter(|last| **last == "prompt_file") {
            *last = "prompt";
        }
        let [_, strategy, path @ ..] = path.as_slice() else {
            return Err(CliError::with_exit(Exit::Usage, no_key(key)));
        };
        let value = path.iter().try_fold(ctx.settings.strategies.get(*strategy), |value, key| {
            value.map(|value| value.get(*key))
        });
        match value.flatten() {
            Some(value) if !path.is_empty() => changes.set(strategy, path, value.clone()),
            _ => return Err(CliError::with_exit(Exit::Usage, no_key(key))),
        }
    }
    if changes.is_empty() {
        let message = "no change is given\n\
             hint: --set planner.confidence=0.9, --prompt planner/assess=@new.md or --model planner/assess=PROVIDER/MODEL";
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    Ok(changes)
}

fn no_key(key: &str) -> String {
    format!("{key} is no single key of a strategy\nhint: --set STRATEGY.KEY=VALUE")
}
