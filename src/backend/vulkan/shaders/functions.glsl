/*
 * exp, log, tanh and their kin.  A driver's own may be off by many units in the
 * last place, so each is worked out here as in the CPU's vec_math.h: the argument
 * is brought into a short range, where a polynomial is good to about one unit.
 * NaN goes in, NaN comes out; infinities give limits.
 *
 * All is `precise`: a driver that rounds a product and a sum once for both does so
 * in one shader and not in the next, and an activation must be the same, bit for
 * bit, behind a product and by itself.
 */
const float LN2_HIGH = 0.693359375, LN2_LOW = -2.12194440e-4;
const float ROUNDER = 12582912.0; /* 1.5 * 2^23: leaves a small number rounded to an integer */

float times_power(float x, int n) {
    const int half_ = n >> 1;
    precise float y = x * uintBitsToFloat(uint(half_ + 127) << 23);
    y = y * uintBitsToFloat(uint(n - half_ + 127) << 23);
    return y;
}

/* Correctly rounded, which a driver's division need not be: the quotient's error is worked out
 * with products split so that they are exact, and taken back. */
float quotient(float a, float b) {
    precise const float q = a / b;
    const uint e = floatBitsToUint(q) >> 23 & 255, eb = floatBitsToUint(b) >> 23 & 255;
    if (e < 40 || e > 210 || eb < 40 || eb > 210) return q;
    precise const float sq = q * 4097, qh = sq - (sq - q), ql = q - qh;
    precise const float sb = b * 4097, bh = sb - (sb - b), bl = b - bh;
    precise const float product = q * b;
    precise const float low = ((qh * bh - product) + qh * bl + ql * bh) + ql * bl;
    precise const float left = (a - product) - low;
    precise const float better = q + left / b;
    return better;
}

/* Correctly rounded likewise: what is left of x after r^2 says by how much r is off. */
float sqrt_of(float x) {
    if (is_nan(x) || x < 0) return NOT_A_NUMBER;
    const uint bits = floatBitsToUint(x);
    if (bits == 0u || bits == 0x80000000u || bits == 0x7f800000u) return x;
    /* Brought to where nothing below is subnormal; of a subnormal number the bits are a count of
     * 2^-149, half as many of 2^-150. */
    const bool tiny = bits < 0x00800000u, large = bits > 0x60000000u;
    precise const float a = tiny ? 2 * float(bits) : bits < 0x20000000u ? x * 18446744073709551616.0
                            : large ? x * 5.421010862427522e-20 : x;
    precise const float r = sqrt(a), s = r * 4097, high = s - (s - r), low = r - high;
    precise const float square = r * r;
    precise const float lost = ((high * high - square) + 2 * high * low) + low * low;
    precise const float better = r + ((a - square) - lost) / (2 * r);
    precise const float y = better * (tiny ? 2.6469779601696886e-23 /* 2^-75 */
                                      : bits < 0x20000000u ? 2.3283064365386963e-10
                                      : large ? 4294967296.0 : 1);
    return y;
}

/* e^(x + low): x = n ln 2 + r, e^r = 1 + r + r^2 P(r) */
float exp_parts(float x, float low) {
    if (is_nan(x)) return x;
    const float c = x < -105 ? -105 : x > 89 ? 89 : x;
    precise const float shifted = c * 1.44269502 + ROUNDER;
    precise const float n = shifted - ROUNDER;
    precise float r = c - n * LN2_HIGH; /* exact: n has 8 bits, LN2_HIGH 9 */
    r = r - n * LN2_LOW + low;
    precise float y = 1.384706353e-03;
    y = y * r + 8.369990624e-03;
    y = y * r + 4.166800901e-02;
    y = y * r + 1.666650921e-01;
    y = y * r + 4.999999404e-01;
    y = y * (r * r) + r + 1.0;
    return times_power(y, int(n));
}

float exp_of(float x) { return exp_parts(x, 0); }

/* ln of a number that is positive, finite and not subnormal */
float log_normal(float x) {
    const int bits = floatBitsToInt(x), e = (bits - 0x3f3504f3) >> 23;
    precise const float f = intBitsToFloat(bits - (e << 23)) - 1;
    precise const float s = f / (f + 2), z = s * s, n = float(e);
    precise float p = 2.428269386e-01;
    p = p * z + 2.849856615e-01;
    p = p * z + 4.000097513e-01;
    p = p * z + 6.666666269e-01;
    precise const float square = 0.5 * (f * f);
    precise const float tail = s * (z * p + square) + n * LN2_LOW;
    precise const float y = n * LN2_HIGH + (f - (square - tail));
    return y;
}

float log_of(float x) {
    if (is_nan(x) || x == INFINITE) return x;
    if (floatBitsToUint(x) << 1 == 0u) return -INFINITE;
    if (x < 0) return NOT_A_NUMBER;
    const uint bits = floatBitsToUint(x);
    /* Of a subnormal number the bits are a count of 2^-149. */
    precise const float y = log_normal(float(bits)) - 103.278929903431851103;
    return bits < 0x00800000u ? y : log_normal(x);
}

/* Near 0  x + x z P(z), z = x^2;  else  1 - 2 / (e^2x + 1) */
float tanh_of(float x) {
    if (is_nan(x)) return x;
    precise const float a = abs(x), z = x * x;
    precise float p = -5.515188910e-03;
    p = p * z + 2.046913095e-02;
    p = p * z - 5.368792638e-02;
    p = p * z + 1.333082914e-01;
    p = p * z - 3.333325982e-01;
    precise const float y = a < 0.65 ? a * z * p + a : 1 - 2 / (exp_of(a + a) + 1);
    return uintBitsToFloat(floatBitsToUint(y) | floatBitsToUint(x) & 0x80000000u);
}

float sigmoid_of(float x) {
    precise const float e = exp_of(-abs(x)), y = 1 / (1 + e), below = e * y;
    return is_nan(x) ? x : x < 0 ? below : y;
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + u), u = e^-|x|; what 1 + u loses of u comes back */
float softplus_of(float x) {
    if (is_nan(x)) return x;
    precise const float u = exp_of(-abs(x)), w = 1 + u;
    precise const float lost = u - (w - 1);
    precise const float y = (x > 0 ? x : 0) + (log_normal(w) + lost / w);
    return y;
}

float silu_of(float x) {
    precise const float y = x * sigmoid_of(x);
    return x == -INFINITE ? NOT_A_NUMBER : y;
}

/* e^(-x^2 / 2): x = h + l with h in 12 bits, so that h^2 is exact */
float bell(float x) {
    if (is_nan(x)) return x;
    const float a = min(abs(x), 20);
    const float h = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u);
    precise const float low = -0.5 * ((a - h) * (a + h)), high = -0.5 * (h * h);
    return exp_parts(high, low);
}

/* The share of a normal distribution below x */
float normal_below(float x, float bell_) {
    const float a = abs(x);
    if (a < 1.5) {
        precise const float z = x * x;
        precise float p = 5.530343401e-07;
        p = p * z - 9.702067473e-06;
        p = p * z + 1.169344614e-04;
        p = p * z - 1.189624425e-03;
        p = p * z + 9.974983521e-03;
        p = p * z - 6.649069488e-02;
        p = p * z + 3.989422917e-01;
        p = x * p + 0.5;
        return p;
    }
    precise const float t = 1 / (a + 3.5);
    precise float q = -3.679081421e+02;
    q = q * t + 2.086250000e+02;
    q = q * t + 5.416769505e+00;
    q = q * t + 1.558234501e+01;
    q = q * t + 4.330470562e+00;
    q = q * t + 1.401353240e+00;
    q = q * t + 3.988743722e-01;
    precise const float beyond = bell_ * (t * q), within = 1 - beyond;
    return x < 0 ? beyond : within;
}

float gelu_erf_of(float x) {
    if (is_nan(x)) return x;
    if (abs(x) == INFINITE) return x > 0 ? x : NOT_A_NUMBER;
    precise const float y = x * normal_below(x, bell(x));
    return y;
}

float gelu_inner(float x) {
    precise const float u = 0.797884583 * (x + 0.044715 * x * x * x);
    return tanh_of(u);
}

float gelu_tanh_of(float x) {
    precise const float y = x * 0.5 * (1 + gelu_inner(x));
    return y;
}

/* As bits: a device may take subnormal numbers for 0. */
bool is_positive(float x) {
    const int bits = floatBitsToInt(x);
    return bits > 0 && bits <= 0x7f800000;
}

float relu_of(float x) { return is_nan(x) || is_positive(x) ? x : 0; }

/* By ig_activation. */
float activation_of(uint form, float x) {
    switch (form) {
    case 1: return relu_of(x);
    case 2: return tanh_of(x);
    case 3: return sigmoid_of(x);
    case 4: return silu_of(x);
    case 5: return gelu_erf_of(x);
    case 6: return gelu_tanh_of(x);
    default: return x;
    }
}
