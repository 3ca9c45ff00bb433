//! Database entities of webhooks and deliveries. The migrations define these tables.

pub(crate) mod webhooks {
    //! Entity of a webhook.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "webhooks")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        #[sea_orm(column_type = "Text", nullable)]
        pub tenant: Option<String>,
        #[sea_orm(column_type = "Text")]
        pub url: String,
        #[sea_orm(column_type = "Text")]
        pub types: String,
        #[sea_orm(column_type = "Text")]
        pub secret: String,
        pub created_at: i64,
        pub disabled_at: Option<i64>,
        #[sea_orm(column_type = "Text", nullable)]
        pub disabled_reason: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub strategy: Option<String>,
        #[sea_orm(column_type = "Text", nullable)]
        pub metadata: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod deliveries {
    //! Entity of a delivery.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "webhook_deliveries")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub webhook_id: Uuid,
        #[sea_orm(column_name = "type", column_type = "Text")]
        pub kind: String,
        #[sea_orm(column_type = "Text")]
        pub payload: String,
        pub created_at: i64,
        #[sea_orm(column_type = "Text")]
        pub state: String,
        pub attempts: i32,
        pub due_at: i64,
        pub tried_at: Option<i64>,
        pub status: Option<i32>,
        #[sea_orm(column_type = "Text", nullable)]
        pub error: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}
