//! Events of the `tracing` crate go to the grain's log, with the spans they happened in:
//! `transfer{amount=5}: withdrawn balance=20`.
//!
//! A grain is single-threaded, so the spans that are entered form one stack per thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::logging::{self, Level};

/// What is let through.
const LEVEL_MAX: tracing::Level = tracing::Level::INFO;

/// A span that is open: its name and fields as text, and how many handles there are.
struct Span {
    text: String,
    handles: usize,
}

#[derive(Default)]
struct Spans {
    open: BTreeMap<u64, Span>,
    entered: Vec<u64>,
}

thread_local! {
    static SPANS: RefCell<Spans> = RefCell::default();
}

struct GrainSubscriber {
    next_id: AtomicU64,
}

/// Does nothing when a subscriber is there already.
pub(crate) fn install() {
    let subscriber = GrainSubscriber { next_id: AtomicU64::new(1) };
    // An error says that the grain has a subscriber of its own, or that this is not a test's first activation.
    let _already_there = tracing::subscriber::set_global_default(subscriber);
}

impl Subscriber for GrainSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= LEVEL_MAX
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(LEVEL_MAX.into())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut text = attributes.metadata().name().to_owned();
        if !fields.text.is_empty() {
            text.push('{');
            text.push_str(&fields.text);
            text.push('}');
        }
        SPANS.with_borrow_mut(|spans| spans.open.insert(id, Span { text, handles: 1 }));
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        SPANS.with_borrow_mut(|spans| {
            if let Some(span) = spans.open.get_mut(&id.into_u64()) {
                span.text.push('{');
                span.text.push_str(&fields.text);
                span.text.push('}');
            }
        });
    }

    fn record_follows_from(&self, _id: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = String::new();
        SPANS.with_borrow(|spans| {
            for span in spans.entered.iter().filter_map(|id| spans.open.get(id)) {
                line.push_str(&span.text);
                line.push_str(": ");
            }
        });
        line.push_str(&fields.message);
        if !fields.message.is_empty() && !fields.text.is_empty() {
            line.push(' ');
        }
        line.push_str(&fields.text);
        let metadata = event.metadata();
        logging::log(level(*metadata.level()), metadata.target(), &line);
    }

    fn enter(&self, id: &Id) {
        SPANS.with_borrow_mut(|spans| spans.entered.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        SPANS.with_borrow_mut(|spans| {
            if let Some(place) = spans.entered.iter().rposition(|it| *it == id.into_u64()) {
                spans.entered.remove(place);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        SPANS.with_borrow_mut(|spans| {
            if let Some(span) = spans.open.get_mut(&id.into_u64()) {
                span.handles += 1;
            }
        });
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        SPANS.with_borrow_mut(|spans| {
            let Some(span) = spans.open.get_mut(&id.into_u64()) else { return false };
            span.handles -= 1;
            if span.handles > 0 {
                return false;
            }
            spans.open.remove(&id.into_u64());
            true
        })
    }
}

fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::TRACE => Level::Trace,
    }
}

/// The message, and the other fields as `name=value name=value`.
#[derive(Default)]
struct Fields {
    message: String,
    text: String,
}

impl Fields {
    fn push(&mut self, name: &str, value: fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = if name == "message" {
            self.message.write_fmt(value)
        } else {
            let space = if self.text.is_empty() { "" } else { " " };
            write!(self.text, "{space}{name}={value}")
        };
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field.name(), format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field.name(), format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.push(field.name(), format_args!("{value}"));
    }
}
