//! The index of a tenant's open turns is one for whoever asks for a tenant, and for nobody else.
//!
//! ## Why
//!
//! PostgreSQL may walk any index whose condition holds for what is asked. Where its statistics said that hardly a turn is
//! open, as they do of any quiet minute, the open turns of one thread seemed to be found as well in this one as in their
//! own, and every look-up read all open turns of all tenants. It cannot take an index whose condition names the tenant for
//! a question that does not. SQLite takes it for none then, and needs no such help: it prefers the index that says more.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{ConnectionTrait, DbBackend},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DbBackend::Postgres {
            return Ok(());
        }
        let db = manager.get_connection();
        db.execute_unprepared("DROP INDEX turns_open_tenant").await?;
        let index = "turns_open_tenant ON turns (tenant) WHERE outcome IS NULL AND tenant IS NOT NULL";
        db.execute_unprepared(&format!("CREATE INDEX {index}")).await?;
        Ok(())
    }
}
