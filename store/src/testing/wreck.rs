//! Does to read models what no turnfold does.

use sea_orm::{ActiveModelTrait as _, ActiveValue::Set, EntityTrait, IntoActiveModel as _, ModelTrait as _};

use crate::{
    Error, Store, TurnStatus,
    log::tables::{threads, turns},
};

/// Wrecks the read models of a store, so that what makes them again can be tried: rows are deleted, or say something
/// else than the log. What was never heard is left, as nobody could tell it again.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn wreck(store: &Store) -> Result<(), Error> {
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
                wrong.strategy = Set("nobody's".to_owned());
                wrong.update(db).await?;
            }
            _ => {
                wrong.created_at = Set(row.created_at + 1);
                wrong.update(db).await?;
            }
        }
    }
    let heard = turns::Entity::find().all(db).await?.into_iter().filter(|it| it.heard_seq.is_some());
    for (nth, row) in heard.enumerate() {
        let mut wrong = row.clone().into_active_model();
        match nth % 5 {
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
                wrong.heard_seq = Set(None);
                wrong.update(db).await?;
            }
            3 => {
                wrong.ended_seq = Set(Some(row.ended_seq.unwrap_or_default() + 1));
                wrong.update(db).await?;
            }
            _ => {
                wrong.error = Set(Some("nothing that happened".to_owned()));
                wrong.update(db).await?;
            }
        }
    }
    Ok(())
}
