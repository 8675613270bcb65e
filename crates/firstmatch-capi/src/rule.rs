//! Rules as the caller gives them: text, or an action with conditions on fields.

use std::ffi::c_char;

use firstmatch::core::Diagnostic;
use firstmatch::core::rule::{Action, NamedCondition, Priority, RuleSet, RuleSpec, Test};
use firstmatch::core::schema::Family;
use firstmatch::{Error, IntoRule, formats};

use crate::guard;
use crate::numbers;
use crate::status::Failure;

/// Test: passed by the value `first`.
pub const FIRSTMATCH_TEST_VALUE: u32 = 1;
/// Test: passed by values whose leading bits are those of `first`; the number of bits is in `second`.
pub const FIRSTMATCH_TEST_PREFIX: u32 = 2;
/// Test: passed by values from `first` to `second`, both included.
pub const FIRSTMATCH_TEST_RANGE: u32 = 3;
/// Test: passed by values that are `first` under the mask `second`.
pub const FIRSTMATCH_TEST_MASK: u32 = 4;
/// Test: passed by packets that lack the field.
pub const FIRSTMATCH_TEST_ABSENT: u32 = 5;

/// Number of up to 128 bits.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Number {
    /// Upper 64 bits.
    pub high: u64,
    /// Lower 64 bits.
    pub low: u64,
}

/// Test of a field's value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TestC {
    /// Kind of the test: `FIRSTMATCH_TEST_VALUE` to `FIRSTMATCH_TEST_ABSENT`.
    pub kind: u32,
    /// Family whose packets the test is for, `FIRSTMATCH_IPV4` or `FIRSTMATCH_IPV6`; 0 is both.
    pub family: u32,
    /// First number of the test.
    pub first: Number,
    /// Second number of the test.
    pub second: Number,
}

/// Condition on a field: its value passes one of the tests.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConditionC {
    /// Name of the field, which ends with NUL.
    pub field: *const c_char,
    /// Tests of the value.
    pub tests: *const TestC,
    /// Number of tests.
    pub count: usize,
    /// 1 if the value must pass none of the tests, otherwise 0.
    pub negated: u32,
    /// 0.
    pub reserved: u32,
}

/// Rule: either a text, or an action with conditions. What is not used is zero.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RuleC {
    /// Size of this struct in bytes.
    pub size: u32,
    /// Action: `FIRSTMATCH_PERMIT` to `FIRSTMATCH_MATCH`; 0 with a text.
    pub action: u32,
    /// Number of the action `FIRSTMATCH_MARK`.
    pub mark: u32,
    /// Family that the rule is confined to; 0 leaves that to its conditions.
    pub family: u32,
    /// Value that every decision of the rule carries.
    pub value: u64,
    /// Conditions, all of which must hold; a field has at most one.
    pub conditions: *const ConditionC,
    /// Number of conditions.
    pub condition_count: usize,
    /// Text of one rule, for example `deny tcp dport 23`; null without.
    pub text: *const c_char,
    /// Number of bytes of the text.
    pub text_length: usize,
}

/// Rule that was copied from the caller.
#[derive(Clone, Debug)]
pub(crate) enum OwnedRule {
    Text { text: String, value: u64 },
    Parts { action: Action, family: Option<Family>, conditions: Vec<NamedCondition>, value: u64 },
}

impl IntoRule for &OwnedRule {
    fn into_rule(
        self,
        rules: &RuleSet,
        priority: Priority,
        options: &formats::Options,
    ) -> Result<(RuleSpec, Vec<Diagnostic>), Error> {
        match self {
            OwnedRule::Text { text, value } => {
                let (spec, warnings) = text.as_str().into_rule(rules, priority, options)?;
                Ok((RuleSpec { value: *value, ..spec }, warnings))
            }
            OwnedRule::Parts { action, family, conditions, value } => {
                let conditions = rules.bind(conditions.iter().map(|condition| held(condition, rules)))?;
                let spec =
                    RuleSpec { priority, action: *action, conditions, family: *family, line: None, value: *value };
                Ok((spec, Vec::new()))
            }
        }
    }
}

/// Returns a condition without its tests for a family that the rules lack, because no packet of it is classified.
///
/// A condition of such tests alone keeps them, so that the insertion is refused.
fn held(condition: &NamedCondition, rules: &RuleSet) -> NamedCondition {
    let mut condition = condition.clone();
    let is_held = |family: Option<Family>| family.is_none() || rules.schema(family).is_some();
    if condition.tests.iter().any(|&(family, _)| is_held(family)) {
        condition.tests.retain(|&(family, _)| is_held(family));
    }
    condition
}

impl Number {
    pub(crate) fn get(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }
}

impl TestC {
    fn read(&self) -> Result<(Option<Family>, Test), Failure> {
        let (first, second) = (self.first.get(), self.second.get());
        let test = match self.kind {
            FIRSTMATCH_TEST_VALUE => Test::Value(first),
            FIRSTMATCH_TEST_PREFIX if second <= 128 => Test::Prefix { value: first, len: second as u32 },
            FIRSTMATCH_TEST_PREFIX => return Err(Failure::invalid(format!("a prefix has {second} bits"))),
            FIRSTMATCH_TEST_RANGE => Test::Range { lo: first, hi: second },
            FIRSTMATCH_TEST_MASK => Test::Mask { value: first, mask: second },
            FIRSTMATCH_TEST_ABSENT => Test::Absent,
            other => return Err(Failure::invalid(format!("there is no test of the kind {other}"))),
        };
        Ok((family(self.family)?, test))
    }
}

impl ConditionC {
    /// Copies the condition.
    ///
    /// # Safety
    /// Its pointers must be null or lead to what the struct says.
    unsafe fn read(&self) -> Result<NamedCondition, Failure> {
        // SAFETY: the caller's promise.
        let (field, tests) = unsafe {
            (guard::name(self.field, "the name of a field")?, guard::array(self.tests, self.count, "tests")?)
        };
        if self.negated > 1 || self.reserved != 0 {
            return Err(Failure::invalid("a condition is negated by 1, and its reserved member is 0"));
        }
        let tests = tests.iter().map(TestC::read).collect::<Result<_, _>>()?;
        Ok(NamedCondition { field: field.to_owned(), negated: self.negated == 1, tests })
    }
}

impl RuleC {
    /// Copies a rule.
    ///
    /// # Safety
    /// `from` must be null or lead to a rule with its size, whose pointers lead to what it says.
    pub(crate) unsafe fn read(from: *const Self) -> Result<OwnedRule, Failure> {
        // SAFETY: the caller's promise; every bit pattern is valid.
        let rule = unsafe { guard::sized(from, "rule") }?;
        if !rule.text.is_null() {
            if rule.action != 0 || rule.mark != 0 || rule.family != 0 || rule.condition_count != 0 {
                return Err(Failure::invalid("a rule has a text, and an action or conditions beside it"));
            }
            // SAFETY: the caller's promise.
            let text = unsafe { guard::text(rule.text, rule.text_length, "the text of a rule") }?;
            return Ok(OwnedRule::Text { text: text.to_owned(), value: rule.value });
        }
        let action = numbers::action_of(rule.action, rule.mark);
        let action = action.ok_or_else(|| Failure::invalid(format!("there is no action {}", rule.action)))?;
        // SAFETY: the caller's promise.
        let conditions = unsafe { guard::array(rule.conditions, rule.condition_count, "conditions") }?;
        // SAFETY: the caller's promise.
        let conditions = conditions.iter().map(|condition| unsafe { condition.read() }).collect::<Result<_, _>>()?;
        Ok(OwnedRule::Parts { action, family: family(rule.family)?, conditions, value: rule.value })
    }
}

fn family(number: u32) -> Result<Option<Family>, Failure> {
    numbers::family_of(number).ok_or_else(|| Failure::invalid(format!("there is no family {number}")))
}

/// Sets a rule to a text, `length` bytes of UTF-8, which it borrows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_rule_from_text(
    rule: *mut RuleC,
    size: usize,
    text: *const c_char,
    length: usize,
) -> i32 {
    let made = RuleC {
        size: size_of::<RuleC>() as u32,
        action: 0,
        mark: 0,
        family: 0,
        value: 0,
        conditions: std::ptr::null(),
        condition_count: 0,
        text,
        text_length: length,
    };
    guard::call(|| {
        if text.is_null() || size < size_of::<RuleC>() {
            return Err(Failure::invalid("the text is null, or the rule is too short for one"));
        }
        // SAFETY: the caller's promise.
        unsafe { guard::init(rule, size, &made, "rule") }
    })
}
