//! The OpenAPI document, the router and the access table say the same.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::Value;
use tenure_server::{CODES, May, TABLE, rule_of};

use crate::server::{Call, Server};

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

fn operations(api: &Value) -> Vec<(String, String, Value)> {
    let paths = api["paths"].as_object().expect("paths");
    let all = paths.iter().flat_map(|(path, item)| {
        let operations = item.as_object().expect("a path item");
        operations
            .iter()
            .map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
    });
    all.collect()
}

#[test]
fn every_documented_route_has_a_row_in_the_access_table() {
    let s = Server::new();
    for (method, path, _) in operations(s.api) {
        let method: Method = method.parse().expect("a method");
        assert!(rule_of(&method, &path).is_some(), "{method} {path} has no row");
    }
}

#[tokio::test]
async fn every_row_of_the_access_table_is_documented_and_answered() {
    let s = Server::new();
    for rule in TABLE {
        let documented = &s.api["paths"][rule.path][rule.method.to_lowercase()];
        assert!(documented.is_object(), "{} {} is not documented", rule.method, rule.path);
        let path = rule.path.replace("{id}", "lock~a~1").replace("{kind}", "lock").replace(['{', '}'], "");
        let method: Method = rule.method.parse().expect("a method");
        let reply = s.send(Call::new("root", method, &path)).await;
        assert_ne!(reply.status, 405, "{} {} has no handler", rule.method, rule.path);
        if reply.status == 404 {
            assert_ne!(reply.json()["what"], "route", "{} {} has no handler", rule.method, rule.path);
        }
    }
}

/// Every path of the document knows only the methods that the document names.
#[tokio::test]
async fn the_router_answers_no_method_that_nobody_documented() {
    let s = Server::new();
    let paths: BTreeSet<_> = operations(s.api).into_iter().map(|(_, path, _)| path).collect();
    for path in paths {
        let place = path.replace("{id}", "lock~a~1").replace("{kind}", "lock").replace(['{', '}'], "");
        let reply = s.send(Call::new("root", Method::OPTIONS, &place)).await.status(204);
        let mut allowed: BTreeSet<_> = reply.header("allow").split(',').map(str::to_lowercase).collect();
        allowed.remove("head");
        let documented = METHODS.iter().filter(|method| s.api["paths"][&path][**method].is_object());
        assert_eq!(allowed, documented.map(|method| (*method).to_owned()).collect(), "{path}");
    }
}

#[test]
fn the_document_is_openapi_3_1_with_examples_and_problems_everywhere() {
    let s = Server::new();
    assert_eq!(s.api["openapi"], "3.1.0");
    for (method, path, operation) in operations(s.api) {
        let at = format!("{method} {path}");
        assert!(operation["summary"].is_string(), "{at} has no summary");
        assert!(operation["operationId"].is_string(), "{at} has no id");
        let responses = operation["responses"].as_object().expect("responses");
        assert!(
            responses.keys().any(|status| status.starts_with('2') || status == "101"),
            "{at} never succeeds"
        );
        let rule = rule_of(&method.parse().expect("a method"), &path).expect("a row");
        let statuses: &[&str] = match rule.may {
            May::Anyone => &[],
            May::Roles { .. } => &["400", "401", "403", "422", "429", "500", "503"],
        };
        for status in statuses {
            assert!(responses.contains_key(*status), "{at} never answers {status}");
        }
        for (status, response) in responses.iter().filter(|(status, _)| ***status >= *"400") {
            let content = &response["content"]["application/problem+json"];
            assert_eq!(content["schema"]["$ref"], "#/components/schemas/Problem", "{at} {status}");
            let examples =
                content["examples"].as_object().unwrap_or_else(|| panic!("{at} {status}: no example"));
            for (code, example) in examples {
                let value = &example["value"];
                assert_eq!(
                    (value["code"].as_str(), value["status"].to_string()),
                    (Some(&**code), status.clone())
                );
            }
        }
        for (status, response) in responses.iter().filter(|(status, _)| status.starts_with('2')) {
            let Some(content) = response["content"]["application/json"].as_object() else { continue };
            let example = content.get("example").unwrap_or_else(|| panic!("{at} {status}: no example"));
            check_fields(example, &content["schema"], s.api, &format!("{at} {status}"));
        }
        if method == "POST" {
            let parameters = operation["parameters"].as_array().expect("parameters");
            assert!(parameters.iter().any(|parameter| parameter["name"] == "Idempotency-Key"), "{at}");
        }
        if let Some(content) = operation["requestBody"]["content"]["application/json"].as_object() {
            assert!(content["example"].is_object(), "{at} has no example of a body");
        }
    }
}

/// The example has the fields that its schema wants and no others.
fn check_fields(example: &Value, schema: &Value, api: &Value, at: &str) {
    let schema = match schema["$ref"].as_str() {
        Some(name) => api.pointer(name.trim_start_matches('#')).expect("a schema"),
        None => schema,
    };
    let (Some(fields), Some(properties)) = (example.as_object(), schema["properties"].as_object()) else {
        return;
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(fields.contains_key(name.as_str().expect("a name")), "{at}: the example lacks {name}");
    }
    for (name, value) in fields {
        let known = properties.get(name).or_else(|| schema.get("additionalProperties"));
        check_fields(value, known.unwrap_or_else(|| panic!("{at}: nobody knows {name}")), api, at);
    }
}

#[test]
fn every_reference_leads_to_a_schema() {
    fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| walk(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let s = Server::new();
    let mut found = Vec::new();
    walk(s.api, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("of this document");
        assert!(s.api.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[tokio::test]
async fn the_document_is_served_as_it_is() {
    let s = Server::new();
    let served = s.get("", "/openapi.json").await.status(200);
    assert_eq!(served.header("content-type"), "application/json");
    assert_eq!(served.json(), *s.api);
}

/// Each code's status is one, and each code that a route documents is in the table.
#[test]
fn codes_are_distinct_and_in_order_of_their_status() {
    let words: BTreeSet<_> = CODES.iter().map(|code| code.code).collect();
    assert_eq!(words.len(), CODES.len());
    assert!(CODES.is_sorted_by_key(|code| code.status));
}
