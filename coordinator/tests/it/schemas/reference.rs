//! The reference of the files that people write, made from their JSON Schemas.

use serde_json::Value as Json;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Where each definition was first described: it is described once.
type Described = HashMap<String, String>;

/// A table for a file: each field with its type, its default and what it says.
pub(super) fn of(title: &str, schema: &Json) -> String {
    let mut text = format!("## {title}\n\n{}\n\n", schema["description"].as_str().unwrap_or_default());
    text.push_str("| field | type | default | meaning |\n|---|---|---|---|\n");
    rows(&mut text, "", schema, schema, "required", &mut Described::new());
    text.push('\n');
    text
}

/// `required`: what is said of a field that must be there.
fn rows(text: &mut String, path: &str, of: &Json, whole: &Json, required: &str, described: &mut Described) {
    let Some(fields) = of["properties"].as_object() else { return };
    let is_required =
        |name: &str| of["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
    for (name, field) in fields {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let default = match (&field["default"], is_required(name)) {
            (Json::Null, true) => required.to_owned(),
            (Json::Null, false) => String::new(),
            (Json::Object(_), _) => "as below".to_owned(),
            (value, _) => format!("`{value}`"),
        };
        let meaning =
            field["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let kind = kind(field, whole);
        let inner = inner(field, whole);
        let known = inner.first().and_then(|(_, first)| described.get(&first.to_string()));
        let meaning = match known {
            Some(first) if meaning.is_empty() => format!("As `{first}`."),
            Some(first) => format!("{meaning} As `{first}`."),
            None => meaning,
        };
        let _ = writeln!(text, "| `{path}` | {} | {default} | {meaning} |", kind.replace('|', "\\|"));
        if known.is_some() {
            continue;
        }
        let required = if inner.len() > 1 { "one of these" } else { "required" };
        let mut once = std::collections::HashSet::new();
        for (suffix, inner) in inner {
            described.insert(inner.to_string(), format!("{path}{suffix}"));
            let fresh = without(inner, &mut once);
            rows(text, &format!("{path}{suffix}"), &fresh, whole, required, described);
        }
    }
}

/// The schema without the fields that another choice of the same field has described.
fn without(schema: &Json, once: &mut std::collections::HashSet<String>) -> Json {
    let mut schema = schema.clone();
    if let Some(fields) = schema["properties"].as_object_mut() {
        fields.retain(|name, field| once.insert(format!("{name} {field}")));
    }
    schema
}

fn deref<'a>(field: &'a Json, whole: &'a Json) -> &'a Json {
    match field["$ref"].as_str().and_then(|path| whole.pointer(path.trim_start_matches('#'))) {
        Some(found) => deref(found, whole),
        None => field,
    }
}

/// The alternative schemas, null apart.
fn choices<'a>(field: &'a Json, whole: &'a Json) -> Vec<&'a Json> {
    let field = deref(field, whole);
    if field["title"].is_string() {
        return vec![field];
    }
    let several = ["anyOf", "oneOf"].into_iter().find_map(|word| field[word].as_array());
    match several {
        Some(several) => {
            several.iter().filter(|one| one["type"] != "null").flat_map(|one| choices(one, whole)).collect()
        }
        None => vec![field],
    }
}

/// Objects inside of a field.
fn inner<'a>(field: &'a Json, whole: &'a Json) -> Vec<(&'static str, &'a Json)> {
    let mut found = Vec::new();
    for choice in choices(field, whole) {
        if choice["properties"].is_object() {
            found.push(("", choice));
        } else if choice["items"].is_object() {
            found.extend(inner(&choice["items"], whole).into_iter().map(|(_, inner)| ("[]", inner)));
        } else {
            let patterns = choice["patternProperties"].as_object().into_iter().flat_map(|map| map.values());
            let values = patterns.chain(choice.get("additionalProperties").filter(|more| more.is_object()));
            let of_values = values.flat_map(|value| inner(value, whole));
            found.extend(of_values.map(|(_, inner)| (".NAME", inner)));
        }
    }
    found
}

fn kind(field: &Json, whole: &Json) -> String {
    let mut kinds: Vec<String> = choices(field, whole).into_iter().map(|one| simple(one, whole)).collect();
    kinds.dedup();
    kinds.join(" or ")
}

fn simple(one: &Json, whole: &Json) -> String {
    if let Some(title) = one["title"].as_str() {
        return title.to_owned();
    }
    if let Some(value) = one.get("const") {
        return format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    if let Some(values) = one["enum"].as_array() {
        let words: Vec<String> =
            values.iter().map(|value| format!("`{}`", value.as_str().unwrap_or_default())).collect();
        return words.join(" or ");
    }
    let of_type = |word: &str| match word {
        "array" => format!("list of {}", kind(&one["items"], whole)),
        "object" if one["properties"].is_object() => "table".to_owned(),
        "object" => "table by name".to_owned(),
        "integer" => "whole number".to_owned(),
        other => other.to_owned(),
    };
    match &one["type"] {
        Json::String(word) => of_type(word),
        Json::Array(words) => {
            let words = words.iter().filter_map(Json::as_str).filter(|word| *word != "null").map(of_type);
            words.collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}
