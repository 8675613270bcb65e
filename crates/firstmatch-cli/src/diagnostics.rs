//! Errors and warnings, on standard error.

use std::cell::RefCell;
use std::io::Write;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use firstmatch_core::Diagnostic;
use firstmatch_formats::visible;

/// Maximum number of characters of a message that are shown, so that it does not fill the screen.
const MAX_TITLE: usize = 400;
/// Maximum number of characters that are marked; the text around them is cut to the width of a screen.
const MAX_MARK: usize = 100;

/// Error, for others than the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) text: String,
    /// Line and column in a file, from 1.
    pub(crate) place: Option<(u32, u32)>,
}

thread_local! {
    /// Errors of this thread since [`record`] began, if it did.
    static RECORD: RefCell<Option<Vec<Problem>>> = const { RefCell::new(None) };
}

/// Returns the errors that `work` prints on this thread, beside its result.
#[cfg(all(feature = "live", target_os = "linux"))]
pub(crate) fn record<R>(work: impl FnOnce() -> R) -> (R, Vec<Problem>) {
    RECORD.set(Some(Vec::new()));
    let result = work();
    (result, RECORD.take().unwrap_or_default())
}

fn log(text: impl FnOnce() -> String, place: Option<(u32, u32)>) {
    RECORD.with_borrow_mut(|record| {
        if let Some(problems) = record {
            problems.push(Problem { text: text(), place });
        }
    });
}

/// Prints to standard error. A failure is ignored, because there is no other place to report it.
fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

pub(crate) fn error(message: &str) {
    log(|| shorten(message), None);
    say(&Renderer::styled().render(&[Group::with_title(Level::ERROR.primary_title(shorten(message)))]));
}

pub(crate) fn warning(message: &str) {
    say(&Renderer::styled().render(&[Group::with_title(Level::WARNING.primary_title(shorten(message)))]));
}

pub(crate) fn note(message: &str) {
    say(&Renderer::styled().render(&[Group::with_title(Level::NOTE.primary_title(shorten(message)))]));
}

/// Shows a fault of a file with its line.
pub(crate) fn fault(path: &str, diagnostic: &Diagnostic) {
    let expected = |expected| format!("; expected {expected}");
    let text = || diagnostic.message.clone() + &diagnostic.expected.as_ref().map_or_else(String::new, expected);
    log(|| shorten(&visible(&text())), Some((diagnostic.line, diagnostic.column)));
    say(&render(Level::ERROR, path, diagnostic));
}

/// Shows a warning about a file with its line.
pub(crate) fn hint(path: &str, diagnostic: &Diagnostic) {
    say(&render(Level::WARNING, path, diagnostic));
}

fn render(level: Level<'_>, path: &str, diagnostic: &Diagnostic) -> String {
    let Diagnostic { line, column, width, message, expected, text } = diagnostic;
    // Text from other crates may hold characters that would change the terminal.
    let (text, message) = (visible(text), visible(message));
    let title = level.primary_title(shorten(&message));
    let expected = expected.as_ref().map(|expected| format!("expected {expected}"));
    let renderer = Renderer::styled();
    // Columns count characters, but spans count bytes.
    let byte = |column: usize| text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(column);
    let first = *column as usize - 1;
    let Some(start) = byte(first) else {
        let origin = Origin::path(path).line(*line as usize).char_column(*column as usize);
        let notes = expected.map(|expected| Level::NOTE.message(expected));
        return renderer.render(&[title.element(origin).elements(notes)]);
    };
    let end = byte(first + (*width as usize).min(MAX_MARK)).unwrap_or(text.len());
    let annotation = AnnotationKind::Primary.span(start..end).label(expected);
    let snippet = Snippet::source(&*text).path(path).line_start(*line as usize).annotation(annotation);
    renderer.render(&[title.element(snippet)])
}

fn shorten(message: &str) -> String {
    match message.char_indices().nth(MAX_TITLE) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}
