//! Database entities of webhooks and deliveries. The migrations define these tables.

pub(crate) mod webhooks {
    //! Entity of a webhook.
    use sea_orm::entity::prelude::*;
    use serde_json::Value;
    use sha2::{Digest as _, Sha256};
    use url::{Position, Url};

    use crate::WebhookDetails;

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

    impl Model {
        /// Returns what an administrative log has of the row.
        pub(crate) fn details(&self) -> WebhookDetails {
            let sha256 = |text: &str| hex::encode(Sha256::digest(text));
            let types = serde_json::from_str(&self.types);
            WebhookDetails {
                id: self.id,
                host: host(&self.url),
                url_sha256: sha256(&self.url),
                secret_sha256: sha256(&self.secret),
                types: types.unwrap_or_else(|_| Value::String(self.types.clone())),
                strategy: self.strategy.clone(),
                metadata_sha256: self.metadata.as_deref().map(sha256),
                created_at: self.created_at,
            }
        }
    }

    /// Returns the host of an address, with its port if it is not the usual one. Empty if the address is not a URL.
    fn host(url: &str) -> String {
        let url = Url::parse(url).ok();
        url.map(|url| url[Position::BeforeHost..Position::AfterPort].to_owned()).unwrap_or_default()
    }

    #[test]
    fn the_host_of_an_address_has_no_secret() {
        for (url, expected) in [
            ("https://ada:pw@hooks.example/T0/secret?key=1", "hooks.example"),
            ("https://hooks.example:8443", "hooks.example:8443"),
            ("https://Hooks.example:443/a", "hooks.example"),
            ("https://[2001:db8::1]:8443/a", "[2001:db8::1]:8443"),
            ("https://hooks.example\\@other.example/a", "hooks.example"),
            ("nonsense", ""),
        ] {
            assert_eq!(host(url), expected);
        }
    }
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
