/* ---- sums become bytes -------------------------------------------------------------------------
 * y = saturate(round(sum * multiplier + zero)), halves to the even integer. The limits come first:
 * no compiler then makes one rounding of product and sum. Numbers of `requantizing` are float or
 * double; adding and subtracting one whose last digit is 1 rounds to an integer. */
static int32_t requantized(int32_t sum, requantizing multiplier, int32_t lowest, int32_t highest,
                           int32_t zero)
{
    const requantizing least = (requantizing)(lowest - zero), most = (requantizing)(highest - zero);
    const requantizing ones =
        (requantizing)(sizeof(requantizing) == 4 ? 12582912.0 : 6755399441055744.0);
    const requantizing y = (requantizing)sum * multiplier;
    const requantizing limited = y > least ? (y < most ? y : most) : least;
    const requantizing rounded = limited + (requantizing)zero + ones;
    return (int32_t)(rounded - ones);
}
