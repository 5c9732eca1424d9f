//! An example of a whole answer, put together from the examples of its fields: nobody writes one twice, and a
//! new field is in it at once.

use serde_json::{Map, Value, json};

/// Schemas lie in each other this deep at most; one that holds itself ends here.
const DEPTH_MAX: u8 = 24;

/// Composes one for a schema of the document. `components` are the document's own. `None` where a field that
/// must be there has no example.
pub(crate) fn sample(schema: &Value, components: &Value) -> Option<Value> {
    compose(schema, components, 0)
}

fn compose(schema: &Value, components: &Value, depth: u8) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    let under = |schema: &Value| compose(schema, components, depth + 1);
    if let Some(given) = given(schema) {
        return Some(given.clone());
    }
    if let Some(name) = schema["$ref"].as_str() {
        return under(&components["schemas"][name.rsplit('/').next()?]);
    }
    if let Some(ways) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let fit = ways.iter().filter(|way| way["type"] != "null").find_map(under);
        return fit.or_else(|| ways.iter().any(|way| way["type"] == "null").then_some(Value::Null));
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let mut whole = Map::new();
        for part in parts {
            whole.extend(under(part)?.as_object()?.clone());
        }
        return Some(Value::Object(whole));
    }
    match kind(schema) {
        Some("object") => object(schema, under),
        Some("array") => Some(under(&schema["items"]).map_or_else(|| json!([]), |item| json!([item]))),
        Some("boolean") => Some(json!(true)),
        Some("string") if schema["format"] == "date-time" => Some(json!("2026-01-02T03:04:05.678Z")),
        _ if may_be_null(schema) => Some(Value::Null),
        _ => None,
    }
}

fn given(schema: &Value) -> Option<&Value> {
    let first = |word: &str| schema[word].as_array().and_then(|all| all.first());
    schema
        .get("example")
        .or_else(|| first("examples"))
        .or_else(|| schema.get("const"))
        .or_else(|| first("enum"))
}

fn object(schema: &Value, under: impl Fn(&Value) -> Option<Value>) -> Option<Value> {
    let mut whole = Map::new();
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let must = required.iter().any(|word| word == name);
        match under(field) {
            // What may be absent and says nothing of itself is absent.
            None | Some(Value::Null) if !must => {}
            None => return None,
            Some(value) => {
                whole.insert(name.clone(), value);
            }
        }
    }
    Some(Value::Object(whole))
}

fn kind(schema: &Value) -> Option<&str> {
    let own = schema["type"].as_array().and_then(|all| all.iter().find(|word| *word != "null"));
    let implied = schema["properties"].is_object().then_some("object");
    own.unwrap_or(&schema["type"]).as_str().or(implied)
}

fn may_be_null(schema: &Value) -> bool {
    schema["type"].as_array().is_some_and(|all| all.iter().any(|word| word == "null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: &Value) -> Option<Value> {
        let components = json!({"schemas": {
            "Name": {"type": "string", "example": "Ana"},
            "Loop": {"type": "object", "required": ["again"], "properties": {"again": {"$ref": "#/components/schemas/Loop"}}},
        }});
        sample(schema, &components)
    }

    #[test]
    fn fields_come_from_their_own_examples_and_references() {
        let schema = json!({"type": "object", "required": ["name", "next", "rows"], "properties": {
            "name": {"$ref": "#/components/schemas/Name"},
            "next": {"type": ["string", "null"]},
            "note": {"type": ["string", "null"]},
            "rows": {"type": "array", "items": {"oneOf": [{"type": "null"}, {"type": "integer", "examples": [7]}]}},
        }});
        assert_eq!(of(&schema), Some(json!({"name": "Ana", "next": null, "rows": [7]})));
    }

    #[test]
    fn parts_are_one_object() {
        let part = |name: &str| json!({"type": "object", "required": [name], "properties": {name: {"type": "boolean"}}});
        assert_eq!(of(&json!({"allOf": [part("a"), part("b")]})), Some(json!({"a": true, "b": true})));
    }

    #[test]
    fn a_field_that_must_be_there_needs_an_example() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        assert_eq!(of(&schema), None);
    }

    #[test]
    fn a_schema_that_holds_itself_has_no_example() {
        assert_eq!(of(&json!({"$ref": "#/components/schemas/Loop"})), None);
    }
}
