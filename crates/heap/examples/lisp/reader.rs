//! Text to expressions.

use std::collections::HashMap;

/// An expression as it is written.
#[derive(Debug)]
pub enum Expression {
    Integer(i32),
    Symbol(u32),
    List(Vec<Self>),
}

/// The symbols, by number.
#[derive(Debug, Default)]
pub struct Symbols {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Symbols {
    fn number(&mut self, name: &str) -> u32 {
        let next = u32::try_from(self.names.len()).expect("fewer symbols than numbers");
        let names = &mut self.names;
        *self.numbers.entry(name.to_owned()).or_insert_with(|| {
            names.push(name.to_owned());
            next
        })
    }

    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }
}

/// Reads all expressions.
///
/// # Errors
/// If the parentheses do not match.
pub fn read(text: &str, symbols: &mut Symbols) -> Result<Vec<Expression>, String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut open: Vec<Vec<Expression>> = vec![Vec::new()];
    for word in spaced.split_whitespace() {
        let expression = match word {
            "(" => {
                open.push(Vec::new());
                continue;
            }
            ")" => open.pop().map(Expression::List).filter(|_| !open.is_empty()).ok_or("a list has no beginning")?,
            _ => match word.parse() {
                Ok(integer) => Expression::Integer(integer),
                Err(_) => Expression::Symbol(symbols.number(word)),
            },
        };
        open.last_mut().ok_or("a list has no beginning")?.push(expression);
    }
    let all = open.pop().unwrap_or_default();
    if open.is_empty() { Ok(all) } else { Err("a list has no end".to_owned()) }
}
