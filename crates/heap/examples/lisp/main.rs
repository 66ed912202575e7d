//! A small Lisp whose objects lie on the heap: what a runtime must bring, and what it gets.
//!
//! It brings an [`ObjectModel`] (where references are, and which values are none), a [`RootSet`] (what it holds outside
//! of the heap), and a write barrier at each store into an object that may be old. It gets memory that skips failed
//! lines. Any allocation may move any object, so between allocations values stay on the stack of roots.
//!
//! ```sh
//! echo '(define (f n) (if (< n 2) 1 (* n (f (- n 1))))) (print (f 10))' | cargo run -p rampart-heap --example lisp
//! cargo run -p rampart-heap --example lisp -- 25% stress < program.lisp   # a quarter of the lines has failed
//! ```

#![forbid(unsafe_code)]

mod reader;

use std::error::Error;
use std::fmt::Write;
use std::io::Read;
use std::ops::Range;

use rampart_heap::wear::{ClusterBytes, FailurePercent, FailureShare, draw_failures};
use rampart_heap::{
    CollectionStress, HeapCounts, HeapRegion, HeapSettings, LocalAllocator, ManagedHeap, ObjectModel, ObjectRef,
    RootSet,
};
use reader::{Expression, Symbols, read};

/// A value: 0 is the empty list, an odd number an integer, a symbol ends in the bits 10, all else is a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value(u32);

const NIL: Value = Value(0);

impl Value {
    const fn integer(integer: i32) -> Self {
        Self(integer.cast_unsigned() << 1 | 1)
    }

    const fn symbol(number: u32) -> Self {
        Self(number << 2 | 2)
    }

    const fn as_integer(self) -> Option<i32> {
        if self.0 & 1 == 1 { Some(self.0.cast_signed() >> 1) } else { None }
    }

    const fn as_symbol(self) -> Option<u32> {
        if self.0 & 3 == 2 { Some(self.0 >> 2) } else { None }
    }

    fn as_object(self) -> Option<ObjectRef> {
        ObjectRef::new(self.0).filter(|_| self.0 & 3 == 0)
    }
}

/// All objects have a header of two words and two or three references: pairs two, functions three.
struct LispModel;

const HEADER: u32 = 8;
const PAIR: u32 = 2;
const FUNCTION: u32 = 3;

impl ObjectModel for LispModel {
    const ALIGN: u32 = 8;
    const COLLECTOR_WORD: u32 = 0;
    const FORWARD_WORD: u32 = 4;

    fn size(&self, region: &HeapRegion, object: ObjectRef) -> u32 {
        (HEADER + 4 * references(region, object)).next_multiple_of(LispModel::ALIGN)
    }

    fn visit_slots(&self, region: &HeapRegion, object: ObjectRef, within: Range<u32>, visit: &mut impl FnMut(u32)) {
        let slots = (0..references(region, object)).map(|number| slot(object, number));
        slots.filter(|slot| within.contains(slot)).for_each(visit);
    }

    fn referent(value: u32) -> Option<ObjectRef> {
        Value(value).as_object()
    }
}

/// How many references an object has: above the bits of the collector.
fn references(region: &HeapRegion, object: ObjectRef) -> u32 {
    region.read(object.offset()) >> 8
}

const fn slot(object: ObjectRef, number: u32) -> u32 {
    object.offset() + HEADER + 4 * number
}

/// What the interpreter holds outside of the heap.
#[derive(Default)]
struct Roots {
    stack: Vec<Value>,
    /// The values of the symbols, by number.
    globals: Vec<Option<Value>>,
}

impl RootSet for Roots {
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32) {
        let globals = self.globals.iter_mut().flatten();
        self.stack.iter_mut().chain(globals).filter(|value| value.as_object().is_some()).for_each(|value| {
            value.0 = visit(value.0);
        });
    }
}

type Result<T> = std::result::Result<T, String>;

/// The place of a value on the stack of roots: there, collections find it and say where it is now.
type Place = usize;

struct Lisp {
    heap: ManagedHeap<LispModel>,
    local: LocalAllocator,
    roots: Roots,
    symbols: Symbols,
    output: String,
}

impl Lisp {
    fn new(settings: HeapSettings, failed: FailureShare) -> std::result::Result<Self, rampart_heap::Error> {
        let pages = draw_failures(128, failed, ClusterBytes::LINE, 1);
        let heap = ManagedHeap::new(LispModel, settings, pages)?;
        let (local, roots) = (LocalAllocator::default(), Roots::default());
        Ok(Self { heap, local, roots, symbols: Symbols::default(), output: String::new() })
    }

    /// A new object, whose references are what lies at these places. Collections come here, and only here.
    fn allocate(&mut self, places: &[Place]) -> Result<Value> {
        let count = u32::try_from(places.len()).expect("two or three");
        let bytes = (HEADER + 4 * count).next_multiple_of(LispModel::ALIGN);
        let at = self.heap.allocate_or_collect(&mut self.local, bytes, &mut self.roots).ok_or("out of memory")?;
        let object = ObjectRef::new(at).expect("memory of the heap is not at offset 0");
        self.heap.region().write(at, count << 8);
        // A new object is young: no write barrier.
        for (number, place) in (0..).zip(places) {
            self.heap.region().write(slot(object, number), self.roots.stack[*place].0);
        }
        Ok(Value(at))
    }

    fn push(&mut self, value: Value) -> Place {
        self.roots.stack.push(value);
        self.roots.stack.len() - 1
    }

    /// A new pair.
    fn pair(&mut self, first: Value, rest: Value) -> Result<Value> {
        let (first, rest) = (self.push(first), self.push(rest));
        let pair = self.allocate(&[first, rest])?;
        self.roots.stack.truncate(first);
        Ok(pair)
    }

    /// The object of a value, if it has so many references.
    fn object(&self, value: Value, count: u32) -> Option<ObjectRef> {
        value.as_object().filter(|object| references(self.heap.region(), *object) == count)
    }

    fn load(&self, object: ObjectRef, number: u32) -> Value {
        Value(self.heap.region().read(slot(object, number)))
    }

    fn part(&self, value: Value, number: u32) -> Result<Value> {
        let pair = self.object(value, PAIR).ok_or_else(|| format!("no pair: {}", self.show(value)))?;
        Ok(self.load(pair, number))
    }

    fn set_part(&mut self, pair: Value, number: u32, value: Value) -> Result<Value> {
        let pair = self.object(pair, PAIR).ok_or("only a pair has parts to set")?;
        // The write barrier: an old object may refer to a young one from now on.
        self.heap.region().mark_card(slot(pair, number));
        self.heap.region().write(slot(pair, number), value.0);
        Ok(value)
    }

    /// What was read, as values.
    fn load_program(&mut self, expression: &Expression) -> Result<Value> {
        match expression {
            Expression::Integer(integer) => Ok(Value::integer(*integer)),
            Expression::Symbol(number) => Ok(Value::symbol(*number)),
            Expression::List(list) => {
                let place = self.push(NIL);
                for expression in list.iter().rev() {
                    let first = self.load_program(expression)?;
                    self.roots.stack[place] = self.pair(first, self.roots.stack[place])?;
                }
                Ok(self.roots.stack.pop().unwrap_or(NIL))
            }
        }
    }

    /// The value of an expression. What lies on the stack above the present top is gone then.
    fn evaluate(&mut self, expression: Value, environment: Value) -> Result<Value> {
        let expression = self.push(expression);
        let environment = self.push(environment);
        let top = self.roots.stack.len();
        // Calls in tail position only replace the expression and its environment.
        let value = loop {
            let step = self.step(expression, environment)?;
            self.roots.stack.truncate(top);
            if let Some(value) = step {
                break value;
            }
        };
        self.roots.stack.truncate(expression);
        Ok(value)
    }

    /// The value of an expression, or another expression that has the same, in its place.
    fn step(&mut self, expression: Place, environment: Place) -> Result<Option<Value>> {
        let now = self.roots.stack[expression];
        if let Some(symbol) = now.as_symbol() {
            return self.look_up(symbol, self.roots.stack[environment]).map(Some);
        }
        if self.object(now, PAIR).is_none() {
            return Ok(Some(now));
        }
        let head = self.part(now, 0)?;
        let name = head.as_symbol().map_or(String::new(), |symbol| self.symbols.name(symbol).to_owned());
        match name.as_str() {
            "quote" => self.argument(expression, 0).map(Some),
            "if" => {
                let condition = self.evaluate_argument(expression, 0, environment)?;
                let branch = if condition == NIL { 2 } else { 1 };
                self.roots.stack[expression] = self.argument(expression, branch).unwrap_or(NIL);
                Ok(None)
            }
            "begin" => {
                let mut number = 0;
                while self.argument(expression, number + 1).is_ok() {
                    self.evaluate_argument(expression, number, environment)?;
                    number += 1;
                }
                self.roots.stack[expression] = self.argument(expression, number)?;
                Ok(None)
            }
            "lambda" => {
                let [parameters, body] = [self.argument(expression, 0)?, self.argument(expression, 1)?];
                let places = [self.push(parameters), self.push(body), environment];
                self.allocate(&places).map(Some)
            }
            "define" => {
                let value = self.evaluate_argument(expression, 1, environment)?;
                let symbol = self.argument(expression, 0)?.as_symbol().ok_or("define wants a symbol")?;
                let number = symbol as usize;
                self.roots.globals.resize(self.roots.globals.len().max(number + 1), None);
                self.roots.globals[number] = Some(value);
                Ok(Some(value))
            }
            _ => self.call(&name, expression, environment),
        }
    }

    /// An argument of an expression, as it is written.
    fn argument(&self, expression: Place, number: usize) -> Result<Value> {
        let mut rest = self.part(self.roots.stack[expression], 1)?;
        for _ in 0..number {
            rest = self.part(rest, 1)?;
        }
        self.part(rest, 0)
    }

    fn evaluate_argument(&mut self, expression: Place, number: usize, environment: Place) -> Result<Value> {
        let argument = self.argument(expression, number)?;
        self.evaluate(argument, self.roots.stack[environment])
    }

    fn look_up(&self, symbol: u32, mut environment: Value) -> Result<Value> {
        while environment != NIL {
            let binding = self.part(environment, 0)?;
            if self.part(binding, 0)?.as_symbol() == Some(symbol) {
                return self.part(binding, 1);
            }
            environment = self.part(environment, 1)?;
        }
        let global = self.roots.globals.get(symbol as usize).copied().flatten();
        global.ok_or_else(|| format!("{} has no value", self.symbols.name(symbol)))
    }

    /// Calls what comes first in an expression: a function, else what is built in under that name.
    fn call(&mut self, name: &str, expression: Place, environment: Place) -> Result<Option<Value>> {
        let arguments = self.roots.stack.len();
        let mut rest = self.push(self.part(self.roots.stack[expression], 1)?);
        while self.roots.stack[rest] != NIL {
            let argument = self.part(self.roots.stack[rest], 0)?;
            let value = self.evaluate(argument, self.roots.stack[environment])?;
            let next = self.part(self.roots.stack[rest], 1)?;
            self.roots.stack[rest] = value;
            rest = self.push(next);
        }
        self.roots.stack.truncate(rest);
        if let Some(value) = self.built_in(name, arguments)? {
            return Ok(Some(value));
        }
        let head = self.part(self.roots.stack[expression], 0)?;
        let function = self.evaluate(head, self.roots.stack[environment])?;
        let function = self.push(function);
        let part = |lisp: &Self, number| {
            let object = lisp.object(lisp.roots.stack[function], FUNCTION).ok_or("only functions can be called")?;
            Ok::<Value, String>(lisp.load(object, number))
        };
        let parameters = part(self, 0)?;
        let parameters = self.push(parameters);
        let bindings = part(self, 2)?;
        let bindings = self.push(bindings);
        for argument in arguments..rest {
            let parameter = self.part(self.roots.stack[parameters], 0)?;
            let binding = self.pair(parameter, self.roots.stack[argument])?;
            self.roots.stack[bindings] = self.pair(binding, self.roots.stack[bindings])?;
            self.roots.stack[parameters] = self.part(self.roots.stack[parameters], 1)?;
        }
        self.roots.stack[expression] = part(self, 1)?;
        self.roots.stack[environment] = self.roots.stack[bindings];
        Ok(None)
    }

    /// What is built in, for arguments from a place on; `None` if there is no such function.
    fn built_in(&mut self, name: &str, arguments: Place) -> Result<Option<Value>> {
        let given = &self.roots.stack[arguments..];
        let [first, second] = [0, 1].map(|number| given.get(number).copied().unwrap_or(NIL));
        let truth = |is_true| if is_true { Value::integer(1) } else { NIL };
        let numbers = || first.as_integer().zip(second.as_integer()).ok_or(format!("{name} wants two integers"));
        let value = match name {
            "+" => numbers().map(|(a, b)| Value::integer(a.wrapping_add(b)))?,
            "-" => numbers().map(|(a, b)| Value::integer(a.wrapping_sub(b)))?,
            "*" => numbers().map(|(a, b)| Value::integer(a.wrapping_mul(b)))?,
            "remainder" => numbers().map(|(a, b)| Value::integer(a.checked_rem(b).unwrap_or(0)))?,
            "<" => numbers().map(|(a, b)| truth(a < b))?,
            "eq" => truth(first == second),
            "cons" => self.pair(first, second)?,
            "first" => self.part(first, 0)?,
            "rest" => self.part(first, 1)?,
            "set-first" => self.set_part(first, 0, second)?,
            "set-rest" => self.set_part(first, 1, second)?,
            "print" => {
                let shown = self.show(first);
                self.output += &shown;
                self.output.push('\n');
                first
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    fn show(&self, value: Value) -> String {
        if let Some(integer) = value.as_integer() {
            return integer.to_string();
        }
        if let Some(symbol) = value.as_symbol() {
            return self.symbols.name(symbol).to_owned();
        }
        if self.object(value, FUNCTION).is_some() {
            return "function".to_owned();
        }
        let (mut text, mut rest, mut space) = ("(".to_owned(), value, "");
        while let Some(pair) = self.object(rest, PAIR) {
            write!(text, "{space}{}", self.show(self.load(pair, 0))).expect("a string takes all");
            (rest, space) = (self.load(pair, 1), " ");
        }
        if rest != NIL {
            write!(text, " . {}", self.show(rest)).expect("a string takes all");
        }
        text + ")"
    }

    /// Runs a program; what it prints.
    fn run(&mut self, program: &str) -> Result<String> {
        for expression in read(program, &mut self.symbols)? {
            let expression = self.load_program(&expression)?;
            self.evaluate(expression, NIL)?;
        }
        self.heap
            .verify(self.roots.globals.iter().flatten().map(|value| value.0))
            .map_err(|error| error.to_string())?;
        Ok(std::mem::take(&mut self.output))
    }
}

/// Runs a program with a share of failed lines; what it prints, and what the collections did.
fn interpret(
    program: &str,
    failed: FailureShare,
    stress: CollectionStress,
) -> std::result::Result<(String, HeapCounts), Box<dyn Error>> {
    let mut lisp = Lisp::new(HeapSettings { stress, ..HeapSettings::default() }, failed)?;
    let output = lisp.run(program)?;
    Ok((output, lisp.heap.counts()))
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let failed: FailurePercent = arguments.first().map_or("0%", String::as_str).parse()?;
    let is_stressed = arguments.get(1).is_some_and(|argument| argument == "stress");
    let mut program = String::new();
    std::io::stdin().read_to_string(&mut program)?;
    let stress = if is_stressed { CollectionStress::EACH } else { CollectionStress::Off };
    let (output, counts) = interpret(&program, failed.share(), stress)?;
    print!("{output}");
    eprintln!("collections: {} of young objects, {} full; {} objects moved", counts.nursery, counts.full, counts.moved);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorts a list, again and again, and keeps a table that it changes.
    const PROGRAM: &str = "
        (define less (lambda (list most) (if (eq list ()) ()
            (if (< (first list) most) (cons (first list) (less (rest list) most)) (less (rest list) most)))))
        (define more (lambda (list least) (if (eq list ()) ()
            (if (< (first list) least) (more (rest list) least) (cons (first list) (more (rest list) least))))))
        (define join (lambda (a b) (if (eq a ()) b (cons (first a) (join (rest a) b)))))
        (define sort (lambda (list) (if (eq list ()) ()
            (join (sort (less (rest list) (first list)))
                (cons (first list) (sort (more (rest list) (first list))))))))
        (define random (lambda (n seed) (if (< n 1) ()
            (cons (remainder seed 97) (random (- n 1) (remainder (+ (* seed 31) 7) 9973))))))
        (define table (cons 0 ()))
        (define sum (lambda (list) (if (eq list ()) 0 (+ (first list) (sum (rest list))))))
        (define again (lambda (n) (if (< n 1) (quote done)
            (begin (set-rest table (cons (sum (sort (random 8 n))) (rest table)))
                (set-first table (+ 1 (first table))) (again (- n 1))))))
        (print (sort (random 12 5)))
        (print (again ROUNDS))
        (print table)
        (print (cons 1 2))
    ";

    #[test]
    fn a_program_prints_the_same_whatever_has_failed_and_whenever_collections_come() {
        let few = PROGRAM.replace("ROUNDS", "3");
        let (expected, _) = interpret(&few, FailureShare::NONE, CollectionStress::Off).unwrap();
        assert!(expected.ends_with("(1 . 2)\n") && expected.contains("done\n(3 "), "{expected}");
        let quarter = FailureShare::new(0.25).unwrap();
        for failed in [FailureShare::NONE, quarter] {
            let (output, counts) = interpret(&few, failed, CollectionStress::EACH).unwrap();
            assert_eq!(output, expected, "{failed:?}");
            assert!(counts.nursery > 500 && counts.moved > 500 && counts.cards > 0, "{counts:?}");
        }
        let many = PROGRAM.replace("ROUNDS", "400");
        let (expected, before) = interpret(&many, FailureShare::NONE, CollectionStress::Off).unwrap();
        let (output, counts) = interpret(&many, quarter, CollectionStress::Off).unwrap();
        assert_eq!(output, expected);
        assert!(before.nursery > 0 && counts.nursery > before.nursery, "less memory works: {before:?}, {counts:?}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let message = |program| interpret(program, FailureShare::NONE, CollectionStress::Off).unwrap_err().to_string();
        assert_eq!(message("(first 3)"), "no pair: 3");
        assert_eq!(message("(print x)"), "x has no value");
        assert_eq!(message("(print (quote (a b))"), "a list has no end");
        assert_eq!(message("(define f (lambda (l) (f (cons l (cons 1 l))))) (f ())"), "out of memory");
    }
}
