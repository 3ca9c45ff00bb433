//! Database entity of a forgotten model. A migration defines the table.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "forgotten_models")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false, column_type = "Text")]
    pub model: String,
    #[sea_orm(column_type = "Text")]
    pub by: String,
    pub at: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
