//! Database entity of a conversation. A migration defines the table.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "conversations")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub thread_id: Uuid,
    #[sea_orm(column_type = "Text")]
    pub tenant: String,
    #[sea_orm(column_type = "Text")]
    pub metadata: String,
    #[sea_orm(column_type = "Text")]
    pub items: String,
    pub created_at: i64,
    /// True if a turn has begun the thread.
    pub begun: bool,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
