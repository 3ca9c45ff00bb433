//! Database entity of a schedule. The migrations define the table.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "schedules")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    #[sea_orm(column_type = "Text")]
    pub tenant: String,
    pub by_operator: bool,
    #[sea_orm(column_type = "Text", nullable)]
    pub key_id: Option<String>,
    #[sea_orm(column_type = "Text")]
    pub author: String,
    #[sea_orm(column_type = "Text")]
    pub name: String,
    #[sea_orm(column_type = "Text")]
    pub cron: String,
    #[sea_orm(column_type = "Text")]
    pub zone: String,
    #[sea_orm(column_type = "Text")]
    pub missed: String,
    #[sea_orm(column_type = "Text")]
    pub target: String,
    #[sea_orm(column_type = "Text")]
    pub body: String,
    pub created_at: i64,
    pub next_at: i64,
    pub due_at: Option<i64>,
    pub stopped_at: Option<i64>,
    #[sea_orm(column_type = "Text", nullable)]
    pub stopped_reason: Option<String>,
    pub last_at: Option<i64>,
    #[sea_orm(column_type = "Text", nullable)]
    pub last_id: Option<String>,
    #[sea_orm(column_type = "Text", nullable)]
    pub last_error: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
