//! The page made from the OpenAPI document: every route by its group, then every schema.

use std::fmt::Write;

use serde_json::Value;

use super::{html, whole};

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

pub(super) fn render(api: &Value) -> String {
    let mut body = String::new();
    let text = |value: &Value| html(value.as_str().unwrap_or(""));
    let info = &api["info"];
    let _ = write!(
        body,
        "<header><h1>{} <small>{}</small></h1><p>{}</p>\
         <p><a href=\"/openapi.json\">OpenAPI</a> · <a href=\"/docs/problems\">Problems</a></p></header>\n<nav><ul>\n",
        text(&info["title"]),
        text(&info["version"]),
        text(&info["description"]),
    );
    let tags = api["tags"].as_array().map_or(&[][..], Vec::as_slice);
    for tag in tags {
        let name = text(&tag["name"]);
        let _ = writeln!(body, "<li><a href=\"#{name}\">{name}</a></li>");
    }
    body.push_str("<li><a href=\"#schemas\">schemas</a></li>\n</ul></nav>\n<main>\n");
    for tag in tags {
        let name = tag["name"].as_str().unwrap_or("");
        let _ = writeln!(
            body,
            "<section id=\"{id}\"><h2>{id}</h2><p>{about}</p>",
            id = html(name),
            about = text(&tag["description"])
        );
        for (method, path, operation) in operations(api, name) {
            operation_section(&mut body, api, method, path, operation);
        }
        body.push_str("</section>\n");
    }
    schemas_section(&mut body, api);
    body.push_str("</main>");
    whole("Tenure", &body)
}

fn operations<'a>(
    api: &'a Value,
    tag: &'a str,
) -> impl Iterator<Item = (&'static str, &'a String, &'a Value)> {
    let paths = api["paths"].as_object().into_iter().flatten();
    paths.flat_map(move |(path, item)| {
        METHODS.into_iter().filter_map(move |method| {
            let operation = item.get(method)?;
            let tagged = operation["tags"].as_array()?.iter().any(|known| known == tag);
            tagged.then_some((method, path, operation))
        })
    })
}

fn operation_section(body: &mut String, api: &Value, method: &str, path: &str, operation: &Value) {
    let id = operation["operationId"].as_str().unwrap_or("");
    let _ = write!(
        body,
        "<article id=\"{id}\"><h3><span class=\"{method}\">{verb}</span> <code>{path}</code></h3><p><b>{summary}</b></p>",
        id = html(id),
        verb = method.to_uppercase(),
        path = html(path),
        summary = html(operation["summary"].as_str().unwrap_or("")),
    );
    if let Some(description) = operation["description"].as_str() {
        let _ = write!(body, "<p>{}</p>", html(description));
    }
    parameters_table(body, operation);
    if let Some(content) = operation["requestBody"]["content"]["application/json"].as_object() {
        let _ = write!(body, "<h4>Body</h4><p>{}</p>", type_of(&content["schema"]));
        if let Some(example) = example_of(api, &content["schema"]) {
            let _ = write!(body, "<pre>{}</pre>", html(&pretty(example)));
        }
    }
    responses_table(body, operation);
    let answers = operation["responses"].as_object().into_iter().flatten();
    let example = answers
        .filter(|(status, _)| status.starts_with('2'))
        .find_map(|(_, response)| response["content"]["application/json"].get("example"));
    if let Some(example) = example {
        let _ = write!(body, "<pre>{}</pre>", html(&pretty(example)));
    }
    body.push_str("</article>\n");
}

fn parameters_table(body: &mut String, operation: &Value) {
    let Some(parameters) = operation["parameters"].as_array().filter(|parameters| !parameters.is_empty())
    else {
        return;
    };
    body.push_str("<h4>Parameters</h4><table><tr><th>name</th><th>in</th><th>type</th><th></th></tr>");
    for parameter in parameters {
        let required = if parameter["required"] == true { "" } else { " <small>optional</small>" };
        let about = parameter["description"].as_str().or(parameter["schema"]["description"].as_str());
        let _ = write!(
            body,
            "<tr><td><code>{}</code>{required}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            html(parameter["name"].as_str().unwrap_or("")),
            html(parameter["in"].as_str().unwrap_or("")),
            type_of(&parameter["schema"]),
            html(about.unwrap_or("")),
        );
    }
    body.push_str("</table>");
}

fn responses_table(body: &mut String, operation: &Value) {
    body.push_str("<h4>Answers</h4><table><tr><th>status</th><th>body</th><th></th></tr>");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let content = response["content"].as_object().and_then(|content| content.values().next());
        let codes = content.and_then(|content| content["examples"].as_object());
        let shown = match codes {
            Some(codes) => {
                let links = codes.keys().map(|code| {
                    let code = html(code);
                    format!("<a href=\"/docs/problems#{code}\"><code>{code}</code></a>")
                });
                links.collect::<Vec<_>>().join(" ")
            }
            None => content.map_or_else(String::new, |content| type_of(&content["schema"])),
        };
        let about = if codes.is_some() { "" } else { response["description"].as_str().unwrap_or("") };
        let _ = write!(body, "<tr><td>{}</td><td>{shown}</td><td>{}</td></tr>", html(status), html(about));
    }
    body.push_str("</table>");
}

fn schemas_section(body: &mut String, api: &Value) {
    body.push_str("<section id=\"schemas\"><h2>schemas</h2>\n");
    for (name, schema) in api["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = write!(
            body,
            "<article id=\"schema-{name}\"><h3><code>{name}</code></h3><p>{}</p>",
            html(schema["description"].as_str().unwrap_or("")),
            name = html(name),
        );
        properties_table(body, schema);
        for part in ["allOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()).flatten() {
            if part.get("properties").is_some() {
                properties_table(body, part);
            } else {
                let _ = write!(body, "<p>{}</p>", type_of(part));
            }
        }
        if let Some(example) = example_in(schema) {
            let _ = write!(body, "<pre>{}</pre>", html(&pretty(example)));
        }
        body.push_str("</article>\n");
    }
    body.push_str("</section>\n");
}

fn properties_table(body: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let is_required = |name: &str| {
        schema["required"].as_array().is_some_and(|required| required.iter().any(|known| known == name))
    };
    body.push_str("<table><tr><th>field</th><th>type</th><th></th></tr>");
    for (name, property) in properties {
        let optional = if is_required(name) { "" } else { " <small>optional</small>" };
        let _ = write!(
            body,
            "<tr><td><code>{}</code>{optional}</td><td>{}</td><td>{}</td></tr>",
            html(name),
            type_of(property),
            html(property["description"].as_str().unwrap_or("")),
        );
    }
    body.push_str("</table>");
}

/// A schema in a few words, with links to those that have a name.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let name = html(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(parts) = schema[key].as_array() {
            return parts.iter().map(type_of).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().map(|word| format!("<code>{}</code>", html(&word.to_string())));
        return words.collect::<Vec<_>>().join(" ");
    }
    match &schema["type"] {
        Value::String(word) if word == "array" => format!("array of {}", type_of(&schema["items"])),
        Value::String(word) => html(word),
        Value::Array(words) => {
            words.iter().filter_map(Value::as_str).map(html).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn example_of<'a>(api: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    let named = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let parts = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
    match named {
        Some(name) => example_in(&api["components"]["schemas"][name]),
        None => example_in(schema).or_else(|| parts.iter().find_map(|part| example_of(api, part))),
    }
}

fn example_in(schema: &Value) -> Option<&Value> {
    schema.get("example").or_else(|| schema["examples"].as_array()?.first())
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
