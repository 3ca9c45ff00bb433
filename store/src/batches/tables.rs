//! Database entities of files, batches and items. The migrations define these tables.

pub(crate) mod files {
    //! Entity of a file.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "files")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        #[sea_orm(column_type = "Text")]
        pub tenant: String,
        #[sea_orm(column_type = "Text")]
        pub filename: String,
        #[sea_orm(column_type = "Text")]
        pub purpose: String,
        pub bytes: i64,
        #[sea_orm(column_type = "Text")]
        pub status: String,
        pub created_at: i64,
        pub expires_at: Option<i64>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod chunks {
    //! Entity of a file's chunk.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "file_chunks")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub file_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub nth: i32,
        pub starts_line: bool,
        pub ends_line: bool,
        pub data: Vec<u8>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod batches {
    //! Entity of a batch.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "batches")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        #[sea_orm(column_type = "Text")]
        pub tenant: String,
        #[sea_orm(column_type = "Text")]
        pub author: String,
        #[sea_orm(column_type = "Text", nullable)]
        pub caller: Option<String>,
        #[sea_orm(column_type = "Text")]
        pub endpoint: String,
        pub by_operator: bool,
        pub input_file: Uuid,
        #[sea_orm(column_type = "Text")]
        pub completion_window: String,
        #[sea_orm(column_type = "Text")]
        pub metadata: String,
        pub output_seconds: Option<i64>,
        pub reuse: bool,
        pub max_micro_usd: Option<i64>,
        pub window: i64,
        pub item_seconds: Option<i64>,
        pub priority: i32,
        #[sea_orm(column_type = "Text")]
        pub status: String,
        #[sea_orm(column_type = "Text")]
        pub counts: String,
        #[sea_orm(column_type = "Text", nullable)]
        pub stopped: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub fault: Option<String>,
        pub validated: i32,
        pub lines: i64,
        pub total: i64,
        pub done: i64,
        pub input_tokens: i64,
        pub output_tokens: i64,
        pub micro_usd: i64,
        #[sea_orm(column_type = "Text", nullable)]
        pub trace_parent: Option<String>,
        /// Model of all lines; empty if they have several.
        #[sea_orm(column_type = "Text", nullable)]
        pub model: Option<String>,
        pub output_file: Option<Uuid>,
        pub error_file: Option<Uuid>,
        #[sea_orm(column_type = "Text", nullable, unique)]
        pub idempotency_key: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub request_hash: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub lease_owner: Option<String>,
        pub lease_expires_at: i64,
        pub created_at: i64,
        pub in_progress_at: Option<i64>,
        pub expires_at: i64,
        pub finalizing_at: Option<i64>,
        pub completed_at: Option<i64>,
        pub failed_at: Option<i64>,
        pub expired_at: Option<i64>,
        pub cancelling_at: Option<i64>,
        pub cancelled_at: Option<i64>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod items {
    //! Entity of an item.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "batch_items")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub batch_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub nth: i64,
        #[sea_orm(column_type = "Text")]
        pub tenant: String,
        #[sea_orm(column_type = "Text", nullable)]
        pub custom_id: Option<String>,
        pub chunk: i32,
        pub start: i32,
        pub length: i32,
        #[sea_orm(column_type = "Text")]
        pub state: String,
        pub priority: i32,
        pub attempt: i32,
        #[sea_orm(column_type = "Text", nullable)]
        pub cache_key: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub strategy: Option<String>,
        pub thread_id: Option<Uuid>,
        pub turn_id: Option<Uuid>,
        pub submitted_at: Option<i64>,
        pub input_tokens: i64,
        pub output_tokens: i64,
        pub micro_usd: i64,
        #[sea_orm(column_type = "Text", nullable)]
        pub code: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub message: Option<String>,
        pub result_no: Option<i64>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}
