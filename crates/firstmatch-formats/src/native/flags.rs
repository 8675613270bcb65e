//! Names of TCP flags: `syn`, `!ack`, `established`.

use super::lexer::{Kind, Lexer, described};
use super::names::suggest;
use crate::report::{Message, Span, quote};
use firstmatch_core::rule::Test;

/// TCP flags by bit, the lowest first.
pub(crate) const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
/// Name for packets of an existing connection: ACK or RST is set.
const ESTABLISHED: &str = "established";
const ESTABLISHED_FLAGS: [u8; 2] = [0x10, 0x04];

/// Returns the bit of a TCP flag by its name in rule files.
pub fn tcp_flag(name: &str) -> Option<u8> {
    FLAGS.iter().position(|flag| *flag == name).map(|at| 1 << at)
}

/// Whether a word stands for TCP flags.
pub(super) fn is_name(word: &str) -> bool {
    word == ESTABLISHED || tcp_flag(word).is_some()
}

pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    FLAGS.into_iter().chain([ESTABLISHED])
}

/// Reads flags that must all hold, as `syn,!ack`, and returns their tests, of which one must pass.
///
/// In a list or a set, where commas separate values, it reads one flag.
///
/// # Errors
/// If a flag is missing or superfluous. The rest of the line cannot be trusted then.
pub(super) fn read(lexer: &mut Lexer<'_>, in_list: bool) -> Result<(Span, Vec<Test>), (Span, Message)> {
    let first = lexer.span;
    let test = |value: u8, mask: u8| Test::Mask { value: value.into(), mask: mask.into() };
    if lexer.is_word(ESTABLISHED) {
        lexer.bump();
        return Ok((first, ESTABLISHED_FLAGS.map(|flag| test(flag, flag)).into()));
    }
    let (mut value, mut mask) = (0, 0);
    loop {
        let start = lexer.span;
        let unset = lexer.kind == Kind::Not;
        if unset {
            lexer.bump();
        }
        let (span, word) = (start.to(lexer.span), lexer.word());
        let Some(flag) = tcp_flag(word).filter(|_| lexer.kind == Kind::Word) else {
            return Err((span, no_flag(lexer.kind, word, unset)));
        };
        lexer.bump();
        if mask & flag != 0 {
            return Err((span, Message::new(format!("the flag {} stands twice", quote(word)))));
        }
        if unset && in_list {
            // One of several values is enough, so an unset flag in a list looks like a mistake.
            let what = format!("`!{word}` in a list, of whose values one is enough");
            return Err((span, Message::new(what).expected("flags without braces, all of which must hold")));
        }
        mask |= flag;
        value |= if unset { 0 } else { flag };
        if lexer.kind != Kind::Comma || in_list {
            return Ok((first.to(span), vec![test(value, mask)]));
        }
        lexer.bump();
    }
}

/// Returns the message for a token that stands in place of a flag.
fn no_flag(kind: Kind, word: &str, unset: bool) -> Message {
    if kind == Kind::Word && word == ESTABLISHED {
        return if unset {
            Message::new(format!("`!` before {ESTABLISHED}, which is several flags"))
                .expected(format!("`tcp_flags not {ESTABLISHED}`"))
        } else {
            Message::new(format!("{} beside other flags", quote(word))).expected("it alone")
        };
    }
    let meant = if kind == Kind::Word { suggest(word, FLAGS.into_iter()) } else { None };
    let message = Message::new(format!("{} where a TCP flag should be", described(kind, word)));
    message.suggest(meant).expected(FLAGS.join(", "))
}

/// Writes a test as flags; `None` if it is not a test of flags.
pub(crate) fn written(test: Test) -> Option<String> {
    let Test::Mask { value, mask: mask @ 1..=0xff } = test else { return None };
    let flags = FLAGS.into_iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
    let shown = flags.map(|(at, flag)| if value >> at & 1 == 1 { flag.to_owned() } else { format!("!{flag}") });
    Some(shown.collect::<Vec<_>>().join(","))
}
