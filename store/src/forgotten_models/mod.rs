//! Models about which an operator had everything forgotten that was learned.
//!
//! This module only stores the request. Workers and threads forget what they learned before its time.

pub(crate) mod table;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{EntityTrait as _, IntoActiveModel as _, sea_query::OnConflict};
use shared::CallerId;

use self::table::Column;
use crate::{
    AdminEvent, By, Error, Store,
    admin::{Entry, append},
    log::{Transaction, plain},
};

/// An operator's request to forget what was learned about a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenModel {
    /// Model, as `provider/model`.
    pub model: String,
    /// Operator who asked for it.
    pub by: String,
    /// Time of the request, in microseconds since the Unix epoch. What is learned later is kept.
    pub at: i64,
}

impl ForgottenModel {
    /// Creates a request that is made now.
    pub fn new(model: &str, by: &str) -> Self {
        Self { model: plain(model), by: plain(by), at: clock::now() }
    }
}

impl Store {
    /// Returns the last request about each model, ordered by model.
    ///
    /// # Errors
    ///
    /// [`Error`] if the rows cannot be read.
    pub async fn forgotten_models(&self) -> Result<Vec<ForgottenModel>, Error> {
        let rows = table::Entity::find().all(&self.database.pool).await?;
        let mut models: Vec<ForgottenModel> =
            rows.into_iter().map(|table::Model { model, by, at }| ForgottenModel { model, by, at }).collect();
        // Sorted here, because the engines' collations differ.
        models.sort_by(|one, other| one.model.cmp(&other.model));
        Ok(models)
    }

    /// Stores a request. An earlier one about the same model is replaced. `caller` is its author, as the key proves it.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn forget_model(
        &self,
        forgotten: &ForgottenModel,
        caller: Option<CallerId>,
    ) -> Result<(), Error> {
        let forgotten = forgotten.clone();
        self.database.transact(move |tx| put(tx, forgotten, caller).boxed()).await
    }
}

async fn put(tx: &Transaction, forgotten: ForgottenModel, caller: Option<CallerId>) -> Result<(), Error> {
    let ForgottenModel { model, by, at } = forgotten;
    let author = By { caller, ..By::from(&by) };
    let over = OnConflict::column(Column::Model).update_columns([Column::By, Column::At]).to_owned();
    let row = table::Model { model: model.clone(), by, at };
    let insert = table::Entity::insert_many([row.into_active_model()]).on_conflict(over);
    insert.exec_without_returning(tx).await?;
    append(tx, vec![Entry::new(None, author, AdminEvent::ModelForgotten { model, at })]).await
}
