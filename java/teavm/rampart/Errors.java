package rampart;

import org.teavm.interop.Import;

/** The errors that the runtime throws. */
public final class Errors {
    private static final OutOfMemoryError OUT_OF_MEMORY = new OutOfMemoryError("Java heap space");

    private Errors() {
    }

    /** Makes them before the program runs: once memory is out, there is none to make one. */
    public static void prepare() {
        setOutOfMemory(OUT_OF_MEMORY);
        setNegativeSize(new NegativeArraySizeException());
        setStackOverflow(new StackOverflowError());
        setClassOfClasses(Class.class);
        // The last one is for all others.
        int lost = lostErrors();
        for (int slot = 0; slot < lost; slot++) {
            addLost(new LostDataError(slot, slot == lost - 1));
        }
    }

    /** Prints what ends the program, as far as TeaVM knows it: there is no stack. */
    public static void report(Throwable uncaught) {
        if (uncaught == OUT_OF_MEMORY) {
            // The host needs no memory to print it.
            reportOutOfMemory();
            return;
        }
        System.err.println("Exception in thread \"main\" " + uncaught);
        for (Throwable cause = uncaught.getCause(); cause != null; cause = cause.getCause()) {
            System.err.println("Caused by: " + cause);
        }
        setReported();
    }

    @Import(module = "rampart", name = "outOfMemory")
    private static native void setOutOfMemory(Object exception);

    @Import(module = "rampart", name = "classOfClasses")
    private static native void setClassOfClasses(Object type);

    @Import(module = "rampart", name = "lostErrors")
    private static native int lostErrors();

    @Import(module = "rampart", name = "addLost")
    private static native void addLost(Object exception);

    @Import(module = "rampart", name = "lostClass")
    static native Object lostClass(int number);

    /** The class of an object whose last field refers to a lost object: an array, if that has its elements. */
    @Import(module = "rampart", name = "lostHolder")
    static native Object lostHolder(int number);

    /** The class that the program expected when it last tried to read a lost object. */
    @Import(module = "rampart", name = "lostExpected")
    static native Object lostExpected(int number);

    @Import(module = "rampart", name = "negativeSize")
    private static native void setNegativeSize(Object exception);

    @Import(module = "rampart", name = "stackOverflow")
    private static native void setStackOverflow(Object exception);

    @Import(module = "rampart", name = "reportOutOfMemory")
    private static native void reportOutOfMemory();

    @Import(module = "rampart", name = "reported")
    private static native void setReported();
}
