//! Hears everything that is traced or logged in this process: every level, every
//! field.

use std::fmt::{self, Write};
use std::sync::{Mutex, MutexGuard, Once};
use tracing::field::{Field, Visit};
use tracing::span;

/// One span or event, with its fields in the order in which they came.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// `span`, or the level of an event.
    pub(crate) what: String,
    pub(crate) target: String,
    pub(crate) fields: Vec<(String, String)>,
}

static HEARD: Mutex<Vec<Heard>> = Mutex::new(Vec::new());

/// Begins to listen; the second time it does so already.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Ear).unwrap();
        log::set_logger(&Ear).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
}

/// Everything heard so far.
pub(crate) fn heard() -> Vec<Heard> {
    all().clone()
}

/// Everything heard so far, as text.
pub(crate) fn text() -> String {
    let mut text = String::new();
    for heard in all().iter() {
        write!(text, "{} {}", heard.what, heard.target).unwrap();
        for (name, value) in &heard.fields {
            write!(text, " {name}={value}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn all() -> MutexGuard<'static, Vec<Heard>> {
    HEARD.lock().unwrap()
}

impl Heard {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .rev()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
    }
}

struct Ear;

struct Into<'a>(&'a mut Vec<(String, String)>);

impl Visit for Into<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name().to_owned(), value.to_owned()));
    }
}

impl log::Log for Ear {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        all().push(Heard {
            what: record.level().to_string(),
            target: record.target().to_owned(),
            fields: vec![("message".to_owned(), record.args().to_string())],
        });
    }

    fn flush(&self) {}
}

impl tracing::Subscriber for Ear {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut fields = Vec::new();
        attributes.record(&mut Into(&mut fields));
        let mut all = all();
        all.push(Heard {
            what: "span".to_owned(),
            target: attributes.metadata().target().to_owned(),
            fields,
        });
        span::Id::from_u64(all.len() as u64)
    }

    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        let place = usize::try_from(id.into_u64()).unwrap() - 1;
        values.record(&mut Into(&mut all()[place].fields));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Vec::new();
        event.record(&mut Into(&mut fields));
        all().push(Heard {
            what: event.metadata().level().to_string(),
            target: event.metadata().target().to_owned(),
            fields,
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
