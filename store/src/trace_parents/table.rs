//! Database entity of a client's span. A migration defines the table.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "trace_parents")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub turn_id: Uuid,
    pub thread_id: Uuid,
    #[sea_orm(column_type = "Text")]
    pub header: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
