//! Database entities of threads, turns, events, holds, requests to cancel, deaths of workers, and forks. The migrations define these tables.

pub(crate) mod threads {
    //! Entity of a thread.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "threads")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        #[sea_orm(column_type = "Text")]
        pub strategy: String,
        #[sea_orm(column_type = "Text")]
        pub status: String,
        pub created_at: i64,
        pub updated_at: i64,
        #[sea_orm(column_type = "Text")]
        pub tenant: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod turns {
    //! Entity of a turn.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "turns")]
    pub(crate) struct Model {
        #[sea_orm(primary_key)]
        pub position: i64,
        #[sea_orm(unique)]
        pub id: Uuid,
        pub thread_id: Uuid,
        #[sea_orm(column_type = "Text")]
        pub status: String,
        #[sea_orm(column_type = "Text")]
        pub policy: String,
        #[sea_orm(column_type = "Text")]
        pub input: String,
        #[sea_orm(column_type = "Text")]
        pub metadata: String,
        #[sea_orm(column_type = "Text")]
        pub author: String,
        #[sea_orm(column_type = "Text", nullable, unique)]
        pub idempotency_key: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub request_hash: Option<String>,
        pub started_seq: Option<i64>,
        pub ended_seq: Option<i64>,
        #[sea_orm(column_type = "Text", nullable)]
        pub error: Option<String>,
        pub created_at: i64,
        pub updated_at: i64,
        #[sea_orm(column_type = "Text")]
        pub tenant: String,
        pub priority: i32,
        pub due_at: Option<i64>,
        #[sea_orm(column_type = "Text", nullable)]
        pub outcome: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub cause: Option<String>,
        pub answers_seq: Option<i64>,
        #[sea_orm(column_type = "Text", nullable)]
        pub caller: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub reply_options: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub history_hash: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub lost_key: Option<String>,
        pub lost_at: Option<i64>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod events {
    //! Entity of an event. SQLite implements its key as a unique index.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "events")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub thread_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub seq: i64,
        pub at: i64,
        #[sea_orm(column_type = "Text")]
        pub kind: String,
        #[sea_orm(column_type = "Text")]
        pub payload: String,
        #[sea_orm(column_type = "Text")]
        pub codec: String,
        pub hash: Vec<u8>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod holds {
    //! Entity of a legal hold.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "holds")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub thread_id: Uuid,
        #[sea_orm(column_type = "Text")]
        pub reason: String,
        #[sea_orm(column_type = "Text")]
        pub placed_by: String,
        pub placed_at: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod cancel_requests {
    //! Entity of a request to cancel the running turn of a thread.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "cancel_requests")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub thread_id: Uuid,
        pub turn_id: Uuid,
        #[sea_orm(column_type = "Text")]
        pub actor: String,
        #[sea_orm(column_type = "Text", nullable)]
        pub caller: Option<String>,
        pub rolled_back: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod deaths {
    //! Entity of a thread that may have killed a worker.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "deaths")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub thread_id: Uuid,
        pub count: i64,
        #[sea_orm(column_type = "Text")]
        pub worker: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod forks {
    //! Entity of a fork that was requested with an idempotency key.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "forks")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false, column_type = "Text")]
        pub idempotency_key: String,
        #[sea_orm(column_type = "Text")]
        pub request_hash: String,
        pub thread_id: Uuid,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}
