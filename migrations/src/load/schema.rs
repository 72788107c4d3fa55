//! The JSON Schema of a migration file, for editors.

use super::file::{File, StepFile};
use crate::unit::{
    AddColumn, Backfill, DropColumn, DropSync, Index, Name, NotNull, Requires, Statement, Sync,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value as Json, json};
use std::borrow::Cow;

/// The JSON Schema of a migration file.
pub fn json_schema() -> Json {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = settings.into_generator().into_root_schema_for::<File>();
    schema.insert("title".to_owned(), "Tidegate migration".into());
    let description = "One migration of a schema, as a TOML file: expand, migrate, contract and undo.";
    schema.insert("description".to_owned(), description.into());
    schema.to_value()
}

macro_rules! texts {
    ($($type:ident = $json:tt;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($json)
            }
        }
    )*};
}

texts! {
    Name = {"type": "string", "pattern": "^[a-z_][a-z0-9_]{0,62}$"};
    Statement = {"type": "string", "description": "One SQL expression."};
    Requires = {
        "oneOf": [
            {"const": "expanded", "description": "As soon as expand is done, before the roll."},
            {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"type": "integer", "minimum": 1, "maximum": 2_147_483_647},
                "description": "{ floor = N }: once the committed floor of the service is N; or the floor of each service by name."
            }
        ]
    };
}

impl JsonSchema for StepFile {
    fn schema_name() -> Cow<'static, str> {
        "Step".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = |description: &str| json!({"type": "string", "description": description});
        let kinds = [
            ("sql", text("One or more SQL statements.")),
            ("file", text("A file of SQL statements, beside this one.")),
            ("add_column", generator.subschema_for::<AddColumn>().to_value()),
            ("drop_column", generator.subschema_for::<DropColumn>().to_value()),
            ("sync", generator.subschema_for::<Sync>().to_value()),
            ("drop_sync", generator.subschema_for::<DropSync>().to_value()),
            ("backfill", generator.subschema_for::<Backfill>().to_value()),
            ("index", generator.subschema_for::<Index>().to_value()),
            ("not_null", generator.subschema_for::<NotNull>().to_value()),
        ];
        let one = |(kind, schema): (&str, Json)| {
            json!({
                "type": "object",
                "required": [kind],
                "additionalProperties": false,
                "properties": {
                    kind: schema,
                    "irreversible": {"type": "boolean", "description": "In expand: it has no undo."},
                },
            })
        };
        let each: Vec<Json> = kinds.into_iter().map(one).collect();
        json_schema!({"oneOf": each})
    }
}
