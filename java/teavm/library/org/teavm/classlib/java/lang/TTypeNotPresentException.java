package org.teavm.classlib.java.lang;

/** `java.lang.TypeNotPresentException`, which TeaVM lacks, and which ASM throws when it cannot find a class. */
public class TTypeNotPresentException extends RuntimeException {
    private final String name;

    public TTypeNotPresentException(String name, Throwable cause) {
        super("Type " + name + " not present", cause);
        this.name = name;
    }

    public String typeName() {
        return name;
    }
}
