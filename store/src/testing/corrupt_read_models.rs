//! Damage to read models that turnfold itself never does.

use sea_orm::{ActiveModelTrait as _, ActiveValue::Set, EntityTrait, IntoActiveModel as _, ModelTrait as _};

use crate::{
    Error, Store,
    log::tables::{threads, turns},
};
use shared::TurnStatus;

/// Deletes some rows of the read models and makes others contradict the log, so that a test can rebuild them.
///
/// Turns that no log has recorded yet are left alone, because nothing could restore them.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn corrupt_read_models(store: &Store) -> Result<(), Error> {
    let db = &store.database.writer;
    for (nth, row) in threads::Entity::find().all(db).await?.into_iter().enumerate() {
        let mut wrong = row.clone().into_active_model();
        match nth % 4 {
            0 => {
                row.delete(db).await?;
            }
            1 => {
                wrong.status = Set(if row.status == "busy" { "idle" } else { "busy" }.to_owned());
                wrong.update(db).await?;
            }
            2 => {
                wrong.strategy = Set("unknown".to_owned());
                wrong.update(db).await?;
            }
            _ => {
                wrong.created_at = Set(row.created_at + 1);
                wrong.update(db).await?;
            }
        }
    }
    let heard = turns::Entity::find().all(db).await?.into_iter().filter(|turn| turn.started_seq.is_some());
    for (nth, row) in heard.enumerate() {
        let mut wrong = row.clone().into_active_model();
        match nth % 7 {
            0 => {
                row.delete(db).await?;
            }
            1 => {
                let running = TurnStatus::Running.as_str();
                let queued = TurnStatus::Queued.as_str();
                wrong.status = Set(if row.status == running { queued } else { running }.to_owned());
                wrong.update(db).await?;
            }
            2 => {
                wrong.started_seq = Set(None);
                wrong.update(db).await?;
            }
            4 => {
                wrong.outcome = Set(Some("declined".to_owned()));
                wrong.cause = Set(Some("a cause that never was".to_owned()));
                wrong.update(db).await?;
            }
            3 => {
                wrong.ended_seq = Set(Some(row.ended_seq.unwrap_or_default() + 1));
                wrong.update(db).await?;
            }
            5 => {
                wrong.history_hash = Set(None);
                wrong.update(db).await?;
            }
            _ => {
                wrong.error = Set(Some("an error that never happened".to_owned()));
                wrong.update(db).await?;
            }
        }
    }
    Ok(())
}
