//! Database entity of a worker. A migration defines the table.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "workers")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    #[sea_orm(column_type = "Text")]
    pub name: String,
    #[sea_orm(column_type = "Text")]
    pub host: String,
    pub pid: i64,
    #[sea_orm(column_type = "Text")]
    pub version: String,
    #[sea_orm(column_type = "Text")]
    pub strategies: String,
    pub slots: i64,
    pub in_flight: i64,
    pub steps_per_second: Option<f64>,
    #[sea_orm(column_type = "Text", nullable)]
    pub learned_models: Option<String>,
    pub started_at: i64,
    pub seen_at: i64,
    pub alive_at: Option<i64>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
