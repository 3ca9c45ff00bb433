//! Database entity of a schedule. The migrations define the table.

use sea_orm::entity::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::ScheduleDetails;

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

impl Model {
    /// Returns what an administrative log has of the row.
    pub(crate) fn details(&self) -> ScheduleDetails {
        ScheduleDetails {
            id: self.id,
            name: self.name.clone(),
            cron: self.cron.clone(),
            zone: self.zone.clone(),
            missed: self.missed.clone(),
            target: self.target.clone(),
            body_sha256: hex::encode(Sha256::digest(&self.body)),
            author: self.author.clone(),
            key_id: self.key_id.clone(),
            by_operator: self.by_operator,
            created_at: self.created_at,
        }
    }
}
