package rampart;

/** The data of an object was lost with the memory that it was in: each access to it throws. */
public final class LostDataError extends VirtualMachineError {
    private final int number;
    private final boolean isForMany;

    LostDataError(int number, boolean isForMany) {
        this.number = number;
        this.isForMany = isForMany;
    }

    @Override
    public String getMessage() {
        if (isForMany) {
            return "the data of object " + number + " or a later one is lost";
        }
        String name = nameOf(Errors.lostClass(number));
        // The elements of an array lie elsewhere than its header.
        if (name == null && Errors.lostHolder(number) instanceof Class<?> holder && holder.isArray()) {
            name = nameOf(holder);
        }
        if (name != null) {
            return "the data of object " + number + ", of class " + name + ", is lost";
        }
        Object expected = Errors.lostExpected(number);
        // Many arrays have one type, so it does not tell of what they are.
        name = expected instanceof Class<?> type && type.isArray() ? "an array" : nameOf(expected);
        return "the data of object " + number
            + (name == null ? " is lost; its class is unknown" : ", read as " + name + ", is lost");
    }

    /** The name of a class; null if that is none. TeaVM has no names for arrays, so this makes them. */
    private static String nameOf(Object type) {
        if (!(type instanceof Class<?> known)) {
            return null;
        }
        return known.isArray() ? nameOf(known.getComponentType()) + "[]" : known.getName();
    }
}
