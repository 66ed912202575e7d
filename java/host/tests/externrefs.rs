//! What an `externref` holds is dropped once it is dead: by a collection of young objects if it died young.

#[path = "wasmtime/heaps.rs"]
mod heaps;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rampart_heap::Collection;
use rampart_heap::wasmtime::{HeapPlan, HeapShare};
use wasmtime::{Caller, ExternRef, Func, Instance, Module, Result, Rooted, Store};

use crate::heaps::{engine, is_stressed, plan};

/// Counts those that exist.
struct Counted {
    number: i32,
    alive: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Counted {
    fn new(number: i32, alive: &Arc<AtomicUsize>, most: &Arc<AtomicUsize>) -> Self {
        let now = alive.fetch_add(1, Ordering::Relaxed) + 1;
        most.fetch_max(now, Ordering::Relaxed);
        Self { number, alive: Arc::clone(alive), most: Arc::clone(most) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A table keeps the last 64 of all `externref`s that the program makes, and every 1000th for good.
const PROGRAM: &str = r#"
(module
    (import "" "make" (func $make (param i32) (result externref)))
    (import "" "check" (func $check (param externref i32)))
    (table $last 64 externref)
    (table $kept 0 1000 externref)
    (func (export "run") (param $count i32)
        (local $i i32)
        (loop $next
            (table.set $last (i32.rem_u (local.get $i) (i32.const 64)) (call $make (local.get $i)))
            (if (i32.eqz (i32.rem_u (local.get $i) (i32.const 1000)))
                (then (drop (table.grow $kept (call $make (local.get $i)) (i32.const 1)))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (local.get $count)))))
    (func (export "check")
        (local $i i32)
        (loop $next
            (call $check (table.get $kept (local.get $i)) (i32.mul (local.get $i) (i32.const 1000)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (table.size $kept)))))
    (func (export "forget") (table.fill $last (i32.const 0) (ref.null extern) (i32.const 64)))
)"#;

#[test]
fn host_data_of_dead_externrefs_is_dropped() -> Result<()> {
    let (alive, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let engine = engine();
    let shared = Arc::new(HeapShare::default());
    let mut store = Store::new(&engine, ());
    HeapPlan { shared: Arc::clone(&shared), ..plan(256) }.leave().expect("1 MiB is large enough");
    let (of_make, most_of_make) = (Arc::clone(&alive), Arc::clone(&most));
    let make = Func::wrap(&mut store, move |mut caller: Caller<'_, ()>, number: i32| {
        let data = Counted::new(number, &of_make, &most_of_make);
        Ok(Some(ExternRef::new(&mut caller, data)?))
    });
    let check = Func::wrap(&mut store, |caller: Caller<'_, ()>, given: Option<Rooted<ExternRef>>, number: i32| {
        let data = given.expect("it is kept").data(&caller)?.expect("it holds data");
        assert_eq!(data.downcast_ref::<Counted>().expect("it is ours").number, number);
        Ok(())
    });
    let module = Module::new(&engine, PROGRAM)?;
    let instance = Instance::new(&mut store, &module, &[make.into(), check.into()])?;
    let count = if is_stressed() { 5_000 } else { 500_000 };
    instance.get_typed_func::<i32, ()>(&mut store, "run")?.call(&mut store, count)?;
    let kept = count.unsigned_abs() as usize / 1000;
    let pauses = shared.log().pauses;
    let nurseries = pauses.iter().filter(|(kind, _)| *kind == Collection::Nursery).count();
    // An externref has 32 B, so a heap of 1 MiB has at most 32,768 of them.
    let most = most.load(Ordering::Relaxed);
    println!("{count} externrefs, at most {most} at once; {} collections, {nurseries} of the nursery", pauses.len());
    assert!(most <= 32_768 + kept, "{most} at once");
    assert!(nurseries > 10, "{nurseries} collections of young objects");
    instance.get_typed_func::<(), ()>(&mut store, "check")?.call(&mut store, ())?;
    instance.get_typed_func::<(), ()>(&mut store, "forget")?.call(&mut store, ())?;
    store.gc(None)?;
    assert_eq!(alive.load(Ordering::Relaxed), kept, "only those in the table are left");
    drop(store);
    assert_eq!(alive.load(Ordering::Relaxed), 0, "the store is gone");
    Ok(())
}
