//! Names of ICMP codes in rules: each name is the code of one type, and the rule then requires that type.

use super::icmp::{self, Codes};
use super::parser::Parser;
use crate::report::{Message, Span};
use firstmatch_core::rule::{Conditions, Test, pack};
use firstmatch_core::schema::{Family, Source};

impl Parser<'_> {
    /// Notes the type of the codes that the condition just read names.
    pub(super) fn note_codes(&mut self, negated: bool, span: Span) {
        let Some((&of_type, others)) = self.code_types.split_first() else { return };
        if let Some(other) = others.iter().find(|other| **other != of_type) {
            let what = format!("codes of the types {of_type} and {other}");
            self.report.fault(span, || Message::new(what).expected("codes of one type: a rule for each type"));
        }
        self.codes = Some(Codes { of_type, negated, span });
    }

    /// Adds the condition on the type of the codes that the rule names, or checks the condition that it has.
    pub(super) fn imply_type(&mut self) {
        let Some(Codes { of_type, negated, span }) = self.codes else { return };
        let asked = format!("`icmp_type {of_type}`");
        let Some(field) = self.fields.of_source(Source::IcmpType) else {
            let message = self.lacking(Source::IcmpType.name());
            let message = message.unwrap_or_else(|| Message::new("codes by name need the type").expected(asked));
            self.report.fault(span, || message);
            return;
        };
        let numbers = icmp::type_numbers(of_type).map(icmp::by_family).into_iter().flatten();
        let numbers = numbers.filter_map(|(family, number)| Some((family, u128::from(number?))));
        let numbers: Vec<_> = numbers.filter(|(family, _)| self.only.is_none_or(|only| only == *family)).collect();
        if let Some((_, other)) = self.conditions.iter().find(|(of, _)| *of == field) {
            if !self.is_type(field, &numbers) {
                let what = format!(
                    "codes of the type {of_type}, where the condition on the type, in column {}, is another",
                    other.column(self.text)
                );
                self.report.fault(span, || Message::new(what).expected(asked));
            }
            return;
        }
        if negated {
            let what = format!("`not` before codes of the type {of_type}, which the rule does not ask for");
            self.report.fault(span, || Message::new(what).expected(format!("{asked} in the rule, too")));
            return;
        }
        let tests: Vec<_> = numbers.iter().map(|&(family, number)| (Some(family), Test::Value(number))).collect();
        pack(field, false, &tests, &mut self.packed);
        self.conditions.push((field, span));
    }

    /// Whether the condition on the type holds only for these numbers, in each family that the rule may match.
    fn is_type(&self, field: usize, numbers: &[(Family, u128)]) -> bool {
        let conditions = Conditions::from_packed(&self.packed);
        let Some(condition) = conditions.on(field) else { return false };
        let protocol = self.fields.protocol().and_then(|field| conditions.on(field));
        let protocol = protocol.and_then(|of| match (of.negated, of.tests().collect::<Vec<_>>().as_slice()) {
            (false, [(_, Test::Value(number))]) => u8::try_from(*number).ok(),
            _ => None,
        });
        let family = protocol.and_then(firstmatch_core::schema::family_of_protocol);
        let is_open =
            |of: Family| self.confined.is_none_or(|(only, _)| only == of) && family.is_none_or(|family| family == of);
        let mut open = numbers.iter().filter(|(of, _)| is_open(*of));
        !condition.negated
            && open.all(|&(of, number)| condition.tests_for(Some(of)).all(|test| test == Test::Value(number)))
    }
}
