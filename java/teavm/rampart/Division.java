package rampart;

/** Divides whole numbers as Java does. {@link Plugin} puts calls of these methods in the place of each division. */
public final class Division {
    private Division() {
    }

    public static int divide(int number, int divisor) {
        check(divisor);
        return divisor == -1 ? -number : number / divisor;
    }

    public static int rest(int number, int divisor) {
        check(divisor);
        return number % divisor;
    }

    public static long divide(long number, long divisor) {
        check(divisor);
        return divisor == -1 ? -number : number / divisor;
    }

    public static long rest(long number, long divisor) {
        check(divisor);
        return number % divisor;
    }

    private static void check(long divisor) {
        if (divisor == 0) {
            throw new ArithmeticException("/ by zero");
        }
    }
}
