package functions;

/** What was asked for is not allowed; the message says what is. */
public final class Refused extends RuntimeException {
  private static final long serialVersionUID = 1;

  public Refused(String message) {
    super(message, null, false, false);
  }
}
