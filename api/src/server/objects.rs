//! A deserializer that takes an object only from an object.
//!
//! ## Why
//!
//! The deserializers that serde derives also take the fields of a struct from an array, by position. A client that sends `["probe"]`
//! would be answered as if it had sent an object.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// A deserializer, access or seed that refuses arrays in the place of objects, at every depth.
pub(super) struct ObjectsOnly<T>(pub(super) T);

/// A visitor of [`ObjectsOnly`].
struct Visiting<V> {
    visitor: V,
    /// True if the visitor expects an object.
    is_object: bool,
}

fn any<V>(visitor: V) -> Visiting<V> {
    Visiting { visitor, is_object: false }
}

fn object<V>(visitor: V) -> Visiting<V> {
    Visiting { visitor, is_object: true }
}

macro_rules! deserialize {
    ($($method:ident($($argument:ident: $kind:ty),*) as $visiting:ident;)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* $visiting(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ObjectsOnly<D> {
    type Error = D::Error;

    deserialize! {
        deserialize_any() as any;
        deserialize_bool() as any;
        deserialize_i8() as any;
        deserialize_i16() as any;
        deserialize_i32() as any;
        deserialize_i64() as any;
        deserialize_i128() as any;
        deserialize_u8() as any;
        deserialize_u16() as any;
        deserialize_u32() as any;
        deserialize_u64() as any;
        deserialize_u128() as any;
        deserialize_f32() as any;
        deserialize_f64() as any;
        deserialize_char() as any;
        deserialize_str() as any;
        deserialize_string() as any;
        deserialize_bytes() as any;
        deserialize_byte_buf() as any;
        deserialize_option() as any;
        deserialize_unit() as any;
        deserialize_unit_struct(name: &'static str) as any;
        deserialize_newtype_struct(name: &'static str) as any;
        deserialize_seq() as any;
        deserialize_tuple(len: usize) as any;
        deserialize_tuple_struct(name: &'static str, len: usize) as any;
        deserialize_map() as any;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) as object;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) as any;
        deserialize_identifier() as any;
        deserialize_ignored_any() as any;
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($kind:ty);)*) => {
        $(fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
            self.visitor.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Visiting<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(formatter)
    }

    visit! {
        visit_bool(bool);
        visit_i64(i64);
        visit_i128(i128);
        visit_u64(u64);
        visit_u128(u128);
        visit_f64(f64);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(ObjectsOnly(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(ObjectsOnly(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        if self.is_object {
            return Err(A::Error::custom("it must be an object, but is an array"));
        }
        self.visitor.visit_seq(ObjectsOnly(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(ObjectsOnly(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(ObjectsOnly(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for ObjectsOnly<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(ObjectsOnly(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for ObjectsOnly<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(ObjectsOnly(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ObjectsOnly<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(ObjectsOnly(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for ObjectsOnly<A> {
    type Error = A::Error;
    type Variant = ObjectsOnly<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        self.0.variant_seed(seed).map(|(name, content)| (name, ObjectsOnly(content)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for ObjectsOnly<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(ObjectsOnly(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, object(visitor))
    }
}

#[test]
fn an_array_is_no_object_at_any_depth() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Outer {
        list: Vec<Inner>,
        maybe: Option<Inner>,
        choice: Choice,
    }
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Inner {
        name: String,
    }
    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Choice {
        Plain,
        Struct { name: String },
    }
    let read = |text: &str| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let value: Result<Outer, _> = serde::Deserialize::deserialize(ObjectsOnly(&mut deserializer));
        value.map_err(|error| error.to_string())
    };
    let whole = r#"{"list":[{"name":"a"}],"maybe":{"name":"b"},"choice":{"struct":{"name":"c"}}}"#;
    let expected: Outer = serde_json::from_str(whole).unwrap();
    assert_eq!(read(whole).unwrap(), expected);
    read(r#"{"list":[],"maybe":null,"choice":"plain"}"#).unwrap();
    for wrong in [
        r#"[[],null,"plain"]"#,
        r#"{"list":[["a"]],"maybe":null,"choice":"plain"}"#,
        r#"{"list":[],"maybe":["b"],"choice":"plain"}"#,
        r#"{"list":[],"maybe":null,"choice":{"struct":["c"]}}"#,
    ] {
        assert!(serde_json::from_str::<Outer>(wrong).is_ok(), "serde itself takes {wrong}");
        let error = read(wrong).unwrap_err();
        assert!(error.contains("must be an object, but is an array"), "{wrong}: {error}");
    }
}
