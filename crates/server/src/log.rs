//! Structured logs on standard error: pretty on a terminal, JSON otherwise. Secrets never reach them: the
//! types that hold one hide it, and no body or header is logged.

use std::fmt;
use std::io::IsTerminal;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FormatFields, FormattedFields};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat};
use crate::context;

/// Starts logging, once in a process.
pub fn init(log: &Log) -> Result<(), String> {
    let filter = filter(&log.level)?;
    let is_terminal = std::io::stderr().is_terminal();
    let pretty = match log.format {
        LogFormat::Auto => is_terminal,
        LogFormat::Pretty => true,
        LogFormat::Json => false,
    };
    // A line that cannot be written is lost. Saying so where it could not be written panics in the thread that logs,
    // which is what a full disk used to do to requests.
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    let started = if pretty {
        Late(logs.with_ansi(is_terminal).with_target(false).finish()).try_init()
    } else {
        let logs = logs.json().flatten_event(true).with_current_span(true).with_span_list(false);
        Late(logs.fmt_fields(Fields).finish()).try_init()
    };
    started.map_err(|error| error.to_string())?;
    // A filter that looks into spans has to see them before there is a line.
    if !log.level.contains('[') {
        context::be_late();
    }
    Ok(())
}

/// Enters the span of the request that a line was written in, for just that line.
struct Late<S>(S);

impl<S: Subscriber> Subscriber for Late<S> {
    fn event(&self, event: &Event<'_>) {
        match context::current_span() {
            Some(span) => span.in_scope(|| self.0.event(event)),
            None => self.0.event(event),
        }
    }

    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        self.0.on_register_dispatch(dispatch);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.0.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        self.0.event_enabled(event)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.0.max_level_hint()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.new_span(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.0.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.0.record_follows_from(span, follows);
    }

    fn enter(&self, span: &Id) {
        self.0.enter(span);
    }

    fn exit(&self, span: &Id) {
        self.0.exit(span);
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.0.clone_span(span)
    }

    fn try_close(&self, span: Id) -> bool {
        self.0.try_close(span)
    }
}

/// A span's fields as JSON, written as they come: the library's own way is a map of values for each.
struct Fields;

impl<'writer> FormatFields<'writer> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut object = Object { text: &mut writer, is_first: true, written: Ok(()) };
        object.put(|text| text.write_char('{'));
        fields.record(&mut object);
        object.put(|text| text.write_char('}'));
        object.written
    }

    fn add_fields(&self, known: &'writer mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        let text = &mut known.fields;
        text.pop();
        let mut object = Object { is_first: text.len() <= 1, text, written: Ok(()) };
        fields.record(&mut object);
        object.put(|text| text.write_char('}'));
        object.written
    }
}

/// A JSON object, as far as it is written.
struct Object<'a> {
    text: &'a mut dyn fmt::Write,
    is_first: bool,
    written: fmt::Result,
}

impl Object<'_> {
    fn put(&mut self, write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result) {
        if self.written.is_ok() {
            self.written = write(self.text);
        }
    }

    /// What stands before a value.
    fn name(&mut self, field: &Field) {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        self.put(|text| write!(text, "{comma}\"{}\":", field.name()));
    }

    fn string(&mut self, value: &str) {
        let is_plain = value.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
        if is_plain {
            self.put(|text| write!(text, "\"{value}\""));
        } else {
            let quoted = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
            self.put(|text| text.write_str(&quoted));
        }
    }
}

impl Visit for Object<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.name(field);
        self.string(value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.name(field);
        self.put(|text| write!(text, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.name(field);
        self.put(|text| write!(text, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.name(field);
        self.put(|text| write!(text, "{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.name(field);
        self.string(&format!("{value:?}"));
    }
}

/// What is logged. The library takes a misspelt level for a module of that name and then logs nothing; so
/// it is looked at first.
pub(crate) fn filter(level: &str) -> Result<EnvFilter, String> {
    for part in level.split(',') {
        let word = part.rsplit('=').next().unwrap_or("").trim();
        let known = ["error", "warn", "info", "debug", "trace", "off"];
        if !known.iter().any(|known| word.eq_ignore_ascii_case(known)) {
            return Err(format!("{word:?} is not error, warn, info, debug, trace or off"));
        }
    }
    EnvFilter::try_new(level).map_err(|error| format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_names_the_request_that_it_is_about() {
        let lines = Lines::default();
        let to = lines.clone();
        let logs = tracing_subscriber::fmt().with_writer(move || to.clone());
        let logs = logs.json().flatten_event(true).with_current_span(true).with_span_list(false);
        tracing::subscriber::with_default(logs.fmt_fields(Fields).finish(), || {
            let strange = "a \"quoted\\\u{1}\nid";
            let span = tracing::info_span!("request", id = strange, method = %"PUT", count = 3_u64, less = -1, is = true,
                later = tracing::field::Empty);
            span.record("later", "a word");
            span.in_scope(|| tracing::info!("told"));
        });
        let text = lines.0.lock().unwrap().clone();
        let line: serde_json::Value = serde_json::from_slice(&text).expect("a line of JSON");
        assert_eq!(line["message"], "told");
        let expected = serde_json::json!({"id": "a \"quoted\\\u{1}\nid", "method": "PUT", "count": 3, "less": -1,
            "is": true, "later": "a word", "name": "request"});
        assert_eq!(line["span"], expected);
    }
}
