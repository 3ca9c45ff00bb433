//! The schema of [`InterruptKind`], which the log and the API share.

use std::borrow::Cow;

use shared::InterruptKind;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

/// Schema of [`InterruptKind`]: kind of a question to a person.
#[derive(Clone, Copy, Debug)]
pub struct InterruptKindSchema;

impl PartialSchema for InterruptKindSchema {
    fn schema() -> RefOr<Schema> {
        let names = InterruptKind::ALL.map(InterruptKind::name);
        let description = "Kind of a question to a person.";
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(description))
            .enum_values(Some(names))
            .into()
    }
}

impl ToSchema for InterruptKindSchema {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("InterruptKind")
    }
}
