//! The page that explains every code. A problem's `type` leads to its place on it.

use std::fmt::Write;

use super::{html, whole};
use crate::CODES;
use crate::document::example;

pub(super) fn render() -> String {
    let mut body = String::from(
        "<header><p><a href=\"/docs\">Tenure</a></p><h1>Problems</h1><p>A refusal is a problem (RFC 9457) with a \
         stable <code>code</code>. It leaves nothing behind.</p></header>\n<main>\n",
    );
    for code in CODES {
        let example = serde_json::to_string_pretty(&example(code.code)).unwrap_or_default();
        let _ = writeln!(
            body,
            "<section id=\"{word}\"><h2><code>{word}</code> <small>{status}</small></h2><p>{title}. {advice}</p>\
             <pre>{example}</pre></section>",
            word = code.code,
            status = code.status,
            title = html(code.title),
            advice = html(code.advice),
            example = html(&example),
        );
    }
    body.push_str("</main>");
    whole("Tenure: problems", &body)
}
