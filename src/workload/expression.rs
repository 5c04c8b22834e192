//! Small expressions: parsed once from a workload file, folded where they are constant, evaluated while playing.
//!
//! Integers are 64-bit. What can be computed at compile time is checked there: overflow and division by zero are
//! errors. At run time arithmetic wraps and a division by zero gives 0, so that no argument can stop a run.
//!
//! Must not import: anything but the rest of `workload`.

use std::collections::BTreeMap;

use super::OptionValue;
use super::values::{Distribution, Random, RandomKind, RandomSettings, Template, permuted};

/// Nesting and length beyond these are refused, so that no file can exhaust the stack.
const DEEPEST: usize = 50;
const MOST_TOKENS: usize = 400;

/// A parsed expression whose names are not looked up yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Ast {
    Int(i64),
    Text(String),
    Name(String),
    Unary(Unary, Box<Ast>),
    Binary(Binary, Box<Ast>, Box<Ast>),
    Call(Function, Vec<Ast>),
}

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    If,
    Auto,
    Unique,
    String,
    /// Draws from a range; without a distribution of its own it follows --rand-type.
    Draw(Option<RandomKind>),
}

impl Function {
    const ALL: [(&'static str, Function); 10] = [
        ("if", Function::If),
        ("auto", Function::Auto),
        ("uniform", Function::Draw(Some(RandomKind::Uniform))),
        ("random", Function::Draw(None)),
        ("gaussian", Function::Draw(Some(RandomKind::Gaussian))),
        ("special", Function::Draw(Some(RandomKind::Special))),
        ("pareto", Function::Draw(Some(RandomKind::Pareto))),
        ("zipfian", Function::Draw(Some(RandomKind::Zipfian))),
        ("unique", Function::Unique),
        ("string", Function::String),
    ];

    fn named(name: &str) -> Result<Function, String> {
        Function::ALL.iter().find(|(known, _)| *known == name).map(|(_, function)| *function).ok_or_else(|| {
            let nearest = super::nearest(name, Function::ALL.iter().map(|(known, _)| *known));
            format!("there is no function `{name}`{nearest}")
        })
    }

    /// Refuses a call with arguments that it cannot take.
    fn check(self, name: &str, arguments: &[Ast]) -> Result<(), String> {
        match (self, arguments) {
            (Function::If, [_, _, _])
            | (Function::Draw(_), [_, _])
            | (Function::Unique | Function::Auto, [])
            | (Function::String, [Ast::Text(_)]) => Ok(()),
            (Function::If, _) => Err("if() takes three arguments: if(condition, a, b)".into()),
            (Function::Draw(_), _) => Err(format!("{name}() takes two numbers, from and to")),
            (Function::Unique | Function::Auto, _) => Err(format!("{name}() takes no arguments")),
            (Function::String, _) => Err("string() takes one template, such as string('###-@@@')".into()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Negate,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
}

impl Binary {
    /// How strongly it binds; higher is stronger. All are left-associative.
    fn strength(self) -> u8 {
        match self {
            Binary::Or => 1,
            Binary::And => 2,
            Binary::Equal | Binary::NotEqual => 4,
            Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => 4,
            Binary::Add | Binary::Subtract => 5,
            Binary::Multiply | Binary::Divide | Binary::Remainder => 6,
        }
    }

    fn takes_truths(self) -> bool {
        matches!(self, Binary::And | Binary::Or)
    }

    fn gives_truth(self) -> bool {
        self.strength() <= 4
    }
}

/// `not` binds stronger than `and`, weaker than comparisons.
const NOT_STRENGTH: u8 = 3;
const NEGATE_STRENGTH: u8 = 7;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Int(i64),
    Text(String),
    Name(String),
    Operator(Binary),
    Not,
    Open,
    Close,
    Comma,
}

/// Parses a whole expression.
pub fn parse(text: &str) -> Result<Ast, String> {
    let tokens = tokens(text)?;
    if tokens.len() > MOST_TOKENS {
        return Err(format!("the expression has more than {MOST_TOKENS} parts"));
    }
    let mut parser = Parser { tokens: &tokens, next: 0 };
    let ast = parser.expression(0, 0)?;
    match parser.peek() {
        None => Ok(ast),
        Some(token) => Err(format!("{} is not expected here", describe(token))),
    }
}

fn describe(token: &Token) -> String {
    match token {
        Token::Int(value) => format!("`{value}`"),
        Token::Text(text) => format!("'{text}'"),
        Token::Name(name) => format!("`{name}`"),
        Token::Operator(operator) => format!("operator {operator:?}").to_lowercase(),
        Token::Not => "`not`".into(),
        Token::Open => "`(`".into(),
        Token::Close => "`)`".into(),
        Token::Comma => "`,`".into(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '0'..='9' => number(rest)?,
            '\'' => quoted(rest)?,
            'a'..='z' | 'A'..='Z' | '_' => word(rest),
            _ => symbol(rest).ok_or_else(|| format!("`{first}` is not part of an expression"))?,
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let value = rest[..length].parse().map_err(|_| format!("{} is too large for 64 bits", &rest[..length]))?;
    Ok((Token::Int(value), length))
}

fn quoted(rest: &str) -> Result<(Token, usize), String> {
    let end = rest[1..].find('\'').ok_or("a text has no closing quote")?;
    Ok((Token::Text(rest[1..=end].to_string()), end + 2))
}

fn word(rest: &str) -> (Token, usize) {
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let token = match &rest[..length] {
        "and" => Token::Operator(Binary::And),
        "or" => Token::Operator(Binary::Or),
        "not" => Token::Not,
        name => Token::Name(name.to_string()),
    };
    (token, length)
}

fn symbol(rest: &str) -> Option<(Token, usize)> {
    use Binary::*;
    // Two-character symbols first, so that `<=` is not read as `<`.
    const SYMBOLS: [(&str, Token); 14] = [
        ("==", Token::Operator(Equal)),
        ("!=", Token::Operator(NotEqual)),
        ("<=", Token::Operator(LessEqual)),
        (">=", Token::Operator(GreaterEqual)),
        ("<", Token::Operator(Less)),
        (">", Token::Operator(Greater)),
        ("+", Token::Operator(Add)),
        ("-", Token::Operator(Subtract)),
        ("*", Token::Operator(Multiply)),
        ("/", Token::Operator(Divide)),
        ("%", Token::Operator(Remainder)),
        ("(", Token::Open),
        (")", Token::Close),
        (",", Token::Comma),
    ];
    SYMBOLS.into_iter().find(|(symbol, _)| rest.starts_with(symbol)).map(|(symbol, token)| (token, symbol.len()))
}

struct Parser<'a> {
    tokens: &'a [Token],
    next: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    /// Precedence climbing: takes operators that bind stronger than `weakest`.
    fn expression(&mut self, weakest: u8, depth: usize) -> Result<Ast, String> {
        if depth > DEEPEST {
            return Err(format!("the expression is nested deeper than {DEEPEST} levels"));
        }
        let mut left = self.operand(depth)?;
        while let Some(&Token::Operator(operator)) = self.peek() {
            if operator.strength() <= weakest {
                break;
            }
            self.next += 1;
            let right = self.expression(operator.strength(), depth + 1)?;
            left = Ast::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operand(&mut self, depth: usize) -> Result<Ast, String> {
        let token = self.peek().cloned().ok_or("the expression ends too early")?;
        self.next += 1;
        match token {
            Token::Int(value) => Ok(Ast::Int(value)),
            Token::Text(text) => Ok(Ast::Text(text)),
            Token::Not => self.unary(Unary::Not, NOT_STRENGTH, depth),
            Token::Operator(Binary::Subtract) => self.unary(Unary::Negate, NEGATE_STRENGTH, depth),
            Token::Open => {
                let inner = self.expression(0, depth + 1)?;
                self.expect(Token::Close)?;
                Ok(inner)
            }
            Token::Name(name) if self.peek() == Some(&Token::Open) => {
                self.next += 1;
                self.call(name, depth)
            }
            Token::Name(name) => Ok(Ast::Name(name)),
            other => Err(format!("{} is not expected here", describe(&other))),
        }
    }

    fn unary(&mut self, operator: Unary, strength: u8, depth: usize) -> Result<Ast, String> {
        Ok(Ast::Unary(operator, Box::new(self.expression(strength, depth + 1)?)))
    }

    fn call(&mut self, name: String, depth: usize) -> Result<Ast, String> {
        let mut arguments = Vec::new();
        if self.peek() != Some(&Token::Close) {
            arguments.push(self.expression(0, depth + 1)?);
            while self.peek() == Some(&Token::Comma) {
                self.next += 1;
                arguments.push(self.expression(0, depth + 1)?);
            }
        }
        self.expect(Token::Close)?;
        let function = Function::named(&name)?;
        function.check(&name, &arguments)?;
        Ok(Ast::Call(function, arguments))
    }

    fn expect(&mut self, wanted: Token) -> Result<(), String> {
        match self.peek() {
            Some(token) if *token == wanted => {
                self.next += 1;
                Ok(())
            }
            Some(token) => Err(format!("{} is found where {} is expected", describe(token), describe(&wanted))),
            None => Err(format!("{} is missing at the end", describe(&wanted))),
        }
    }
}

impl Ast {
    /// Calls `visit` with every name that is used as a value.
    pub fn names(&self, visit: &mut impl FnMut(&str)) {
        match self {
            Ast::Int(_) | Ast::Text(_) => {}
            Ast::Name(name) => visit(name),
            Ast::Unary(_, inner) => inner.names(visit),
            Ast::Binary(_, left, right) => {
                left.names(visit);
                right.names(visit);
            }
            Ast::Call(_, arguments) => arguments.iter().for_each(|argument| argument.names(visit)),
        }
    }
}

/// A compiled expression of integers and truths (0 and 1).
#[derive(Clone, Debug)]
pub enum Expression {
    Constant(i64),
    /// A variable of the transaction.
    Slot(usize),
    Known(Known),
    Negate(Box<Expression>),
    Not(Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    If(Box<[Expression; 3]>),
    Draw(Box<Draw>),
    /// A number of 32 bits that no other ticket of the run gets.
    Unique,
}

/// A value the player knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Row,
    Worker,
    Ticket,
    WorkerTicket,
    /// Which repetition of a list's part this is, from 0.
    Index,
}

#[derive(Clone, Debug)]
pub struct Draw {
    distribution: Distribution,
    low: Expression,
    high: Expression,
}

impl Compiled {
    fn int(self) -> Result<Expression, String> {
        match self {
            Compiled::Int(expression) => Ok(expression),
            Compiled::Truth(_) => Err("a number is needed here, not on or off".into()),
            Compiled::Text(_) | Compiled::Template(_) => Err("a number is needed here, not a text".into()),
            Compiled::Auto => Err("auto() can only be a statement's argument by itself".into()),
        }
    }

    fn truth(self) -> Result<Expression, String> {
        match self {
            Compiled::Truth(expression) => Ok(expression),
            _ => Err("on or off, or a comparison, is needed here".into()),
        }
    }
}

/// What an expression may use, and what is known while it is compiled.
pub struct Scope<'a> {
    /// The values of all options, `threads` among them.
    pub options: &'a BTreeMap<String, OptionValue>,
    /// Variables set so far, by position.
    pub variables: &'a [String],
    pub known: &'a [Known],
    pub random: &'a RandomSettings,
}

/// What a compiled expression gives.
#[derive(Clone, Debug)]
pub enum Compiled {
    Int(Expression),
    Truth(Expression),
    /// A text that is the same each time.
    Text(String),
    /// A text that is drawn anew each time.
    Template(Template),
    /// The server's next auto-increment value.
    Auto,
}

impl Known {
    const ALL: [(Known, &'static str); 5] = [
        (Known::Row, "row"),
        (Known::Worker, "worker"),
        (Known::Ticket, "ticket"),
        (Known::WorkerTicket, "worker_ticket"),
        (Known::Index, "index"),
    ];

    /// Where it has a value.
    fn home(self) -> &'static str {
        match self {
            Known::Row => "the value of a column",
            Known::Index => "a list of a statement",
            Known::Worker | Known::Ticket | Known::WorkerTicket => "a transaction's variables, tables and arguments",
        }
    }

    /// Whether a name means one of these anywhere, and so cannot be an option's or a variable's.
    pub fn is_reserved(name: &str) -> bool {
        Known::ALL.iter().any(|(_, known)| *known == name)
            || matches!(name, "on" | "off" | "true" | "false" | "threads")
    }
}

impl Scope<'_> {
    pub fn compile(&self, ast: &Ast) -> Result<Compiled, String> {
        match ast {
            Ast::Int(value) => Ok(Compiled::Int(Expression::Constant(*value))),
            Ast::Text(text) => Ok(Compiled::Text(text.clone())),
            Ast::Name(name) => self.name(name),
            Ast::Unary(Unary::Negate, inner) => {
                let inner = self.int(inner)?;
                Ok(Compiled::Int(match inner {
                    Expression::Constant(value) => {
                        Expression::Constant(value.checked_neg().ok_or("a constant overflows")?)
                    }
                    inner => Expression::Negate(Box::new(inner)),
                }))
            }
            Ast::Unary(Unary::Not, inner) => {
                let inner = self.truth(inner)?;
                Ok(Compiled::Truth(match inner {
                    Expression::Constant(value) => Expression::Constant(i64::from(value == 0)),
                    inner => Expression::Not(Box::new(inner)),
                }))
            }
            Ast::Binary(operator, left, right) => self.binary(*operator, left, right),
            Ast::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    /// Compiles what must be an integer.
    pub fn int(&self, ast: &Ast) -> Result<Expression, String> {
        self.compile(ast)?.int()
    }

    /// Compiles what must be on or off.
    pub fn truth(&self, ast: &Ast) -> Result<Expression, String> {
        self.compile(ast)?.truth()
    }

    /// Compiles what must be known now: an integer that depends on options only.
    pub fn constant(&self, ast: &Ast) -> Result<i64, String> {
        match self.int(ast)? {
            Expression::Constant(value) => Ok(value),
            _ => Err("a number that is known before the run is needed here, made of options only".into()),
        }
    }

    /// Compiles what must be known now: on or off.
    pub fn constant_truth(&self, ast: &Ast) -> Result<bool, String> {
        match self.truth(ast)? {
            Expression::Constant(value) => Ok(value != 0),
            _ => Err("on or off that is known before the run is needed here, made of options only".into()),
        }
    }

    fn name(&self, name: &str) -> Result<Compiled, String> {
        if let Some(slot) = self.variables.iter().rposition(|variable| variable == name) {
            return Ok(Compiled::Int(Expression::Slot(slot)));
        }
        if let Some((known, _)) = Known::ALL.iter().find(|(known, text)| *text == name && self.known.contains(known)) {
            return Ok(Compiled::Int(Expression::Known(*known)));
        }
        match name {
            "on" | "true" => return Ok(Compiled::Truth(Expression::Constant(1))),
            "off" | "false" => return Ok(Compiled::Truth(Expression::Constant(0))),
            _ => {}
        }
        match self.options.get(name) {
            Some(OptionValue::Int(value)) => Ok(Compiled::Int(Expression::Constant(*value))),
            Some(OptionValue::Bool(value)) => Ok(Compiled::Truth(Expression::Constant(i64::from(*value)))),
            Some(OptionValue::Text(text)) => Ok(Compiled::Text(text.clone())),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> String {
        if let Some((known, _)) = Known::ALL.iter().find(|(_, text)| *text == name) {
            return format!("`{name}` has no value here, only in {}", known.home());
        }
        let known = Known::ALL.iter().filter(|(known, _)| self.known.contains(known)).map(|(_, text)| *text);
        let names = self.variables.iter().chain(self.options.keys()).map(String::as_str).chain(known);
        let nearest = super::nearest(name, names);
        format!("`{name}` is neither an option nor a variable that is set before this place{nearest}")
    }

    fn binary(&self, operator: Binary, left: &Ast, right: &Ast) -> Result<Compiled, String> {
        let (left, right) = match (self.compile(left)?, self.compile(right)?) {
            // Texts are always known now, so nothing is left to compare in a run.
            (Compiled::Text(left), Compiled::Text(right)) if operator == Binary::Equal => {
                return Ok(Compiled::Truth(Expression::Constant(i64::from(left == right))));
            }
            (Compiled::Text(left), Compiled::Text(right)) if operator == Binary::NotEqual => {
                return Ok(Compiled::Truth(Expression::Constant(i64::from(left != right))));
            }
            (left, right) if operator.takes_truths() => (left.truth()?, right.truth()?),
            (left, right) => (left.int()?, right.int()?),
        };
        let expression = match (&left, &right) {
            (Expression::Constant(left), Expression::Constant(right)) => {
                let folded = checked(operator, *left, *right);
                Expression::Constant(folded.ok_or("a constant overflows or is divided by zero")?)
            }
            _ => Expression::Binary(operator, Box::new(left), Box::new(right)),
        };
        Ok(if operator.gives_truth() { Compiled::Truth(expression) } else { Compiled::Int(expression) })
    }

    fn call(&self, function: Function, arguments: &[Ast]) -> Result<Compiled, String> {
        match (function, arguments) {
            (Function::If, [condition, then, otherwise]) => self.choice(condition, then, otherwise),
            (Function::Draw(kind), [low, high]) => self.draw(kind.unwrap_or(self.random.kind), low, high),
            (Function::Unique, []) if !self.known.contains(&Known::Ticket) => {
                Err("`unique()` has no value here: it numbers transactions, and rows are made before there are any"
                    .into())
            }
            (Function::Unique, []) => Ok(Compiled::Int(Expression::Unique)),
            (Function::Auto, []) => Ok(Compiled::Auto),
            (Function::String, [Ast::Text(text)]) => Ok(Compiled::Template(Template::new(text))),
            _ => Err("a function has arguments that it cannot take".into()),
        }
    }

    fn draw(&self, kind: RandomKind, low: &Ast, high: &Ast) -> Result<Compiled, String> {
        let (low, high) = (self.int(low)?, self.int(high)?);
        let mut distribution = self.random.distribution(kind);
        if let (Expression::Constant(low), Expression::Constant(high)) = (&low, &high) {
            if high < low {
                return Err(format!("from {low} to {high} is an empty range"));
            }
            distribution = distribution.for_range((high.wrapping_sub(*low) as u64).saturating_add(1));
        }
        Ok(Compiled::Int(Expression::Draw(Box::new(Draw { distribution, low, high }))))
    }

    /// `if(condition, a, b)`. A constant condition leaves one branch. Of the other only the names are looked up, since
    /// it may well be an impossible value that the condition guards against.
    fn choice(&self, condition: &Ast, then: &Ast, otherwise: &Ast) -> Result<Compiled, String> {
        let (taken, other) = match self.truth(condition)? {
            Expression::Constant(0) => (otherwise, then),
            Expression::Constant(_) => (then, otherwise),
            condition => {
                let branches = [condition, self.int(then)?, self.int(otherwise)?];
                return Ok(Compiled::Int(Expression::If(Box::new(branches))));
            }
        };
        let mut unknown = None;
        other.names(&mut |name| unknown = unknown.take().or(self.name(name).err()));
        unknown.map_or_else(|| self.compile(taken), Err)
    }
}

fn checked(operator: Binary, left: i64, right: i64) -> Option<i64> {
    let truth = |value: bool| Some(i64::from(value));
    match operator {
        Binary::Add => left.checked_add(right),
        Binary::Subtract => left.checked_sub(right),
        Binary::Multiply => left.checked_mul(right),
        Binary::Divide => left.checked_div(right),
        Binary::Remainder => left.checked_rem(right),
        Binary::Equal => truth(left == right),
        Binary::NotEqual => truth(left != right),
        Binary::Less => truth(left < right),
        Binary::LessEqual => truth(left <= right),
        Binary::Greater => truth(left > right),
        Binary::GreaterEqual => truth(left >= right),
        Binary::And => truth(left != 0 && right != 0),
        Binary::Or => truth(left != 0 || right != 0),
    }
}

fn wrapping(operator: Binary, left: i64, right: i64) -> i64 {
    match operator {
        Binary::Add => left.wrapping_add(right),
        Binary::Subtract => left.wrapping_sub(right),
        Binary::Multiply => left.wrapping_mul(right),
        // What is left are division by zero, which gives 0, and the one quotient that overflows.
        _ => checked(operator, left, right).unwrap_or(0),
    }
}

/// What an evaluation may look at.
pub struct Context<'a> {
    pub slots: &'a [i64],
    pub row: i64,
    pub worker: i64,
    pub ticket: i64,
    pub worker_ticket: i64,
    pub index: i64,
    pub seed: u64,
}

impl Expression {
    pub fn evaluate(&self, context: &Context<'_>, random: &mut Random) -> i64 {
        match self {
            Expression::Constant(value) => *value,
            Expression::Slot(slot) => context.slots[*slot],
            Expression::Known(known) => match known {
                Known::Row => context.row,
                Known::Worker => context.worker,
                Known::Ticket => context.ticket,
                Known::WorkerTicket => context.worker_ticket,
                Known::Index => context.index,
            },
            Expression::Negate(inner) => inner.evaluate(context, random).wrapping_neg(),
            Expression::Not(inner) => i64::from(inner.evaluate(context, random) == 0),
            Expression::Binary(operator, left, right) => {
                let left = left.evaluate(context, random);
                wrapping(*operator, left, right.evaluate(context, random))
            }
            Expression::If(branches) => {
                let [condition, then, otherwise] = branches.as_ref();
                let branch = if condition.evaluate(context, random) != 0 { then } else { otherwise };
                branch.evaluate(context, random)
            }
            Expression::Draw(draw) => {
                let low = draw.low.evaluate(context, random);
                let high = draw.high.evaluate(context, random);
                draw.distribution.draw(low, high, random)
            }
            Expression::Unique => permuted(context.ticket as u64, 32, context.seed) as i64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options() -> BTreeMap<String, OptionValue> {
        BTreeMap::from([
            ("rows".to_string(), OptionValue::Int(100)),
            ("skip".to_string(), OptionValue::Bool(false)),
            ("engine".to_string(), OptionValue::Text("innodb".into())),
        ])
    }

    fn int(text: &str, variables: &[String]) -> Expression {
        let (options, random) = (options(), RandomSettings::default());
        let scope = Scope { options: &options, variables, known: &[Known::Worker], random: &random };
        scope.int(&parse(text).unwrap()).unwrap()
    }

    fn fold(text: &str) -> Result<i64, String> {
        let (options, random) = (options(), RandomSettings::default());
        let scope = Scope { options: &options, variables: &[], known: &[], random: &random };
        match scope.compile(&parse(text)?)? {
            Compiled::Int(Expression::Constant(value)) | Compiled::Truth(Expression::Constant(value)) => Ok(value),
            other => Err(format!("not constant: {other:?}")),
        }
    }

    #[test]
    fn operators_bind_as_in_arithmetic_and_logic() {
        for (text, value) in [
            ("1 + 2 * 3", 7),
            ("(1 + 2) * 3", 9),
            ("10 - 2 - 3", 5),
            ("7 / 2 % 2", 1),
            ("-2 * -3", 6),
            ("rows - 1", 99),
            ("not skip and 1 < 2", 1),
            ("not (1 == 1 or skip)", 0),
            ("not 2 > 1", 0),
            ("if(rows >= 100, 5, 6)", 5),
            ("if(skip, 1 / 0, 6)", 6),
            ("engine == 'innodb' and engine != 'rocksdb'", 1),
        ] {
            assert_eq!(fold(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn wrong_expressions_say_what_is_wrong() {
        for (text, part) in [
            ("", "ends too early"),
            ("1 +", "ends too early"),
            ("1 2", "`2` is not expected"),
            ("(1", "`)` is missing"),
            ("f(1)", "no function `f`"),
            ("unifrom(1, 2)", "did you mean `uniform`"),
            ("uniform(1)", "takes two numbers"),
            ("uniform(2, 1)", "empty range"),
            ("nobody", "neither an option nor a variable"),
            ("row", "no value here"),
            ("rosw", "did you mean `rows`"),
            ("if(skip, nobody, 6)", "neither an option nor a variable"),
            ("if(skip, 6)", "three arguments"),
            ("engine == 1", "not a text"),
            ("1 + skip", "a number is needed"),
            ("1 and skip", "on or off"),
            ("engine + 1", "not a text"),
            ("9223372036854775807 + 1", "overflows"),
            ("99999999999999999999", "too large"),
            ("1 / 0", "divided by zero"),
            ("'open", "no closing quote"),
            ("1 ? 2", "`?` is not part"),
            (&"1+".repeat(20_000), "more than 400 parts"),
            (&"(".repeat(300), "nested deeper"),
        ] {
            let message = fold(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn variables_shadow_options_and_later_ones_win() {
        let compiled = int("rows + id + worker", &["id".to_string(), "rows".to_string()]);
        let context = Context { slots: &[5, 7], row: 0, worker: 3, ticket: 0, worker_ticket: 0, index: 0, seed: 0 };
        assert_eq!(compiled.evaluate(&context, &mut Random::of(&[1])), 15);
    }

    #[test]
    fn run_time_arithmetic_never_panics() {
        for text in ["a + b", "a * b", "a / b", "a % b", "-a", "uniform(a, b)", "special(b, a)"] {
            let compiled = int(text, &["a".to_string(), "b".to_string()]);
            for slots in [[i64::MIN, -1], [i64::MAX, 0], [i64::MIN, i64::MAX], [1, 0]] {
                let context =
                    Context { slots: &slots, row: 0, worker: 0, ticket: 0, worker_ticket: 0, index: 0, seed: 0 };
                compiled.evaluate(&context, &mut Random::of(&[1]));
            }
        }
    }

    fn trees() -> impl Strategy<Value = Ast> {
        use Binary::*;
        let binary = prop::sample::select(vec![
            Add,
            Subtract,
            Multiply,
            Divide,
            Remainder,
            Equal,
            NotEqual,
            Less,
            LessEqual,
            Greater,
            GreaterEqual,
            And,
            Or,
        ]);
        let leaf = prop_oneof![(0i64..100).prop_map(Ast::Int), "[a-m]{1,3}".prop_map(Ast::Name)];
        leaf.prop_recursive(6, 60, 2, move |inner| {
            let unary = prop_oneof![Just(Unary::Negate), Just(Unary::Not)];
            prop_oneof![
                (binary.clone(), inner.clone(), inner.clone()).prop_map(|(operator, left, right)| Ast::Binary(
                    operator,
                    Box::new(left),
                    Box::new(right)
                )),
                (unary, inner).prop_map(|(operator, inner)| Ast::Unary(operator, Box::new(inner))),
            ]
        })
    }

    /// Writes a tree with no more brackets than the manual's order of operators asks for, `around` being how strongly
    /// the place binds.
    fn written(ast: &Ast, around: u8) -> String {
        let (text, strength) = match ast {
            Ast::Int(value) => (value.to_string(), 9),
            Ast::Name(name) => (name.clone(), 9),
            Ast::Unary(Unary::Not, inner) => (format!("not {}", written(inner, 3)), 3),
            Ast::Unary(Unary::Negate, inner) => (format!("-{}", written(inner, 7)), 7),
            Ast::Binary(operator, left, right) => {
                let (symbol, strength) = match operator {
                    Binary::Or => ("or", 1),
                    Binary::And => ("and", 2),
                    Binary::Equal => ("==", 4),
                    Binary::NotEqual => ("!=", 4),
                    Binary::Less => ("<", 4),
                    Binary::LessEqual => ("<=", 4),
                    Binary::Greater => (">", 4),
                    Binary::GreaterEqual => (">=", 4),
                    Binary::Add => ("+", 5),
                    Binary::Subtract => ("-", 5),
                    Binary::Multiply => ("*", 6),
                    Binary::Divide => ("/", 6),
                    Binary::Remainder => ("%", 6),
                };
                (format!("{} {symbol} {}", written(left, strength), written(right, strength + 1)), strength)
            }
            Ast::Text(_) | Ast::Call(..) => unreachable!("trees() makes none"),
        };
        if strength < around { format!("({text})") } else { text }
    }

    proptest! {
        #[test]
        fn a_tree_is_read_back_as_it_was_written(tree in trees()) {
            let text = written(&tree, 0);
            prop_assert_eq!(parse(&text), Ok(tree), "{}", text);
        }

        #[test]
        fn the_parser_never_panics(text in "[-a-z0-9_'(),+*/%<>=! ]{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn sums_and_products_agree_with_rust(a in 0i64..1000, b in 0i64..1000, c in 1i64..1000) {
            prop_assert_eq!(fold(&format!("{a} + {b} * {c}")), Ok(a + b * c));
            prop_assert_eq!(fold(&format!("({a} + {b}) / {c} - {a} % {c}")), Ok((a + b) / c - a % c));
        }
    }
}
