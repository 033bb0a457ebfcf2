"""CUDA C++ of the probes: texts without headers, so that NVRTC needs nothing beside itself.

A kernel that computes takes how often to repeat its body. Results are kept where the compiler cannot see that nobody
reads them. Data are random: constant ones draw less power, and a device reads up to 13 % faster on them than on real data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

ENTRY = "probe"  # name of every kernel
CHAINS = 4  # independent ones a lane or warp: hides the latency of an instruction
UNROLL = 32  # steps of a chain in one pass of the loop, whose own instructions then weigh about 1 %
WARP = 32  # lanes
WORD_BYTES = 16  # of one access: the widest that a lane can make


@dataclass(frozen=True)
class Arithmetic:
    """One instruction of the plain units: the type that holds its operands, its text, and what it counts.

    ``x = x * x + c`` never settles: for c near -1.9 the values stay within [-2, 2] and look random.
    """

    type: str
    seed: str  # of the expression `unit`, which is random in [-1, 1)
    constant: str
    step: str  # of `x`, in place
    operations: int


ARITHMETIC: Mapping[str, Arithmetic] = {
    "float32": Arithmetic("float", "unit", "-1.9f", "x = fmaf(x, x, c)", 2),
    "float64": Arithmetic("double", "(double)unit", "-1.9", "x = fma(x, x, c)", 2),
    "float16": Arithmetic(
        "unsigned", "0x34003800u ^ (bits & 0x81ff81ffu)", "0xbf9abf9au",  # ±[0.25, 1); -1.9 twice
        'asm volatile("fma.rn.f16x2 %0, %0, %0, %1;" : "+r"(x) : "r"(c))', 4,
    ),
    "bfloat16": Arithmetic(
        "unsigned", "0x3e803f00u ^ (bits & 0x807f807fu)", "0xbff3bff3u",
        'asm volatile("fma.rn.bf16x2 %0, %0, %0, %1;" : "+r"(x) : "r"(c))', 4,
    ),
    "int32": Arithmetic("unsigned", "bits | 1u", "mix(lane) | 1u", 'asm volatile("mul.lo.u32 %0, %0, %1;" : "+r"(x) : "r"(c))', 1),
}  # fmt: skip

_RANDOM = """
__device__ unsigned mix(unsigned x)
{
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
    return x;
}
"""

_COMPUTE = Template(
    _RANDOM
    + """
typedef $type T;

__device__ T seeded(unsigned index)
{
    unsigned bits = mix(index + 1u);
    float unit = (float)(int)bits * 4.6566129e-10f;
    (void)unit;
    return (T)($seed);
}

__device__ __forceinline__ void step(T& x, T c) { $step; }

extern "C" __global__ void probe(T* out, long long passes)
{
    unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
    T x[$chains], c = (T)($constant);
    for (int chain = 0; chain < $chains; ++chain) x[chain] = seeded(lane * $chains + chain);
    for (long long pass = 0; pass < passes; ++pass) {
        #pragma unroll
        for (int turn = 0; turn < $unroll; ++turn) {
            #pragma unroll
            for (int chain = 0; chain < $chains; ++chain) step(x[chain], c);
        }
    }
    for (int chain = 0; chain < $chains; ++chain) out[lane * $chains + chain] = x[chain];
}
"""
)


def compute_text(dtype: str) -> str:
    """Chains of fused multiply-adds; of multiplications for integers. One pass: `compute_operations` a lane."""
    what = ARITHMETIC[dtype]
    return _COMPUTE.substitute(
        type=what.type, seed=what.seed, constant=what.constant, step=what.step, chains=CHAINS, unroll=UNROLL
    )


def compute_operations(dtype: str) -> int:
    """Operations of one lane in one pass."""
    return CHAINS * UNROLL * ARITHMETIC[dtype].operations


@dataclass(frozen=True)
class Mma:
    """One `mma.sync`: what PTX calls it, and the registers of a lane.

    Args:
        name: as in the PTX manual, after ``mma.sync.aligned.``.
        m: rows of the result; `n` its columns, `k` the length of the sums.
        a: registers of A in a lane; `b` and `d` those of B and of the result, which is C as well.
        mask: bits of a register of A or B that are drawn; the others are `fixed`, so that no value is huge or no number.
        operand: C type of a register of A and B, `result` that of the result.
        capability: compute capability from which on the device has it, times ten.
    """

    name: str
    m: int
    n: int
    k: int
    a: int
    b: int
    d: int
    mask: int
    fixed: int
    operand: str = "unsigned"
    result: str = "float"
    capability: int = 80

    @property
    def operations(self) -> int:
        """Of one instruction, which is one warp's."""
        return 2 * self.m * self.n * self.k


MMA: Mapping[str, tuple[Mma, ...]] = {
    "float16": (Mma("m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, 4, 2, 4, 0x83FF83FF, 0x38003800),),
    "bfloat16": (Mma("m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, 4, 2, 4, 0x807F807F, 0x3F003F00),),
    "tf32": (Mma("m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, 4, 2, 4, 0x807FE000, 0x3F000000),),
    "float64": (
        Mma("m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, 1, 1, 2, 0x800FFFFF, 0x3FE00000, "double", "double"),
        Mma("m16n8k16.row.col.f64.f64.f64.f64", 16, 8, 16, 8, 4, 4, 0x800FFFFF, 0x3FE00000, "double", "double", 90),
    ),
    "int8": (
        Mma("m16n8k32.row.col.s32.s8.s8.s32", 16, 8, 32, 4, 2, 4, 0xFFFFFFFF, 0, result="int"),
    ),
    "float8_e4m3fn": (
        Mma("m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 8, 32, 4, 2, 4, 0x87878787, 0x30303030, capability=89),
    ),
}  # fmt: skip

_MATRIX = Template(
    _RANDOM
    + """
typedef $operand T;
typedef $result R;

__device__ T seeded(unsigned index)
{
    unsigned word = (mix(index + 1u) & ${mask}u) | ${fixed}u;
    return $draw;
}

__device__ __forceinline__ void step(R (&d)[$d_count], const T (&a)[$a_count], const T (&b)[$b_count])
{
    asm volatile("mma.sync.aligned.$name {$d_list}, {$a_list}, {$b_list}, {$d_list};"
                 : $outputs : $inputs);
}

extern "C" __global__ void probe(R* out, long long passes)
{
    unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
    T a[$chains][$a_count], b[$chains][$b_count];
    R d[$chains][$d_count];
    for (int chain = 0; chain < $chains; ++chain) {
        unsigned first = (lane * $chains + chain) * 32u;
        for (int i = 0; i < $a_count; ++i) a[chain][i] = seeded(first + i);
        for (int i = 0; i < $b_count; ++i) b[chain][i] = seeded(first + 16u + i);
        for (int i = 0; i < $d_count; ++i) d[chain][i] = (R)0;
    }
    for (long long pass = 0; pass < passes; ++pass) {
        #pragma unroll
        for (int turn = 0; turn < $unroll; ++turn) {
            #pragma unroll
            for (int chain = 0; chain < $chains; ++chain) step(d[chain], a[chain], b[chain]);
        }
    }
    for (int chain = 0; chain < $chains; ++chain)
        for (int i = 0; i < $d_count; ++i) out[(lane * $chains + chain) * $d_count + i] = d[chain][i];
}
"""
)
MATRIX_UNROLL = 8  # instructions of a chain in one pass: a matrix instruction is long beside the loop's own


def matrix_text(what: Mma) -> str:
    """Chains of one matrix instruction. One pass: `matrix_operations` a warp."""
    kind, result = ("d", "d") if what.operand == "double" else ("r", "r" if what.result == "int" else "f")
    places = [f"%{index}" for index in range(what.d + what.a + what.b)]
    d, a, b = places[: what.d], places[what.d : what.d + what.a], places[what.d + what.a :]
    return _MATRIX.substitute(
        operand=what.operand,
        result=what.result,
        mask=hex(what.mask),
        fixed=hex(what.fixed),
        draw="__hiloint2double((int)word, (int)mix(~index))" if what.operand == "double" else "word",
        name=what.name,
        d_list=", ".join(d),
        a_list=", ".join(a),
        b_list=", ".join(b),
        outputs=", ".join(f'"+{result}"(d[{index}])' for index in range(what.d)),
        inputs=", ".join(
            f'"{kind}"({name}[{index}])' for name, count in (("a", what.a), ("b", what.b)) for index in range(count)
        ),
        a_count=what.a,
        b_count=what.b,
        d_count=what.d,
        chains=CHAINS,
        unroll=MATRIX_UNROLL,
    )


def matrix_operations(what: Mma) -> int:
    """Operations of one warp in one pass."""
    return CHAINS * MATRIX_UNROLL * what.operations


_MEMORY = Template(
    _RANDOM
    + """
extern "C" __global__ void probe(uint4* __restrict__ out, const uint4* __restrict__ in, long long words)
{
    long long first = (long long)blockIdx.x * blockDim.x * $words + threadIdx.x;
    $before
    #pragma unroll
    for (int turn = 0; turn < $words; ++turn) {
        long long i = first + (long long)turn * blockDim.x;
        if (i < words) { $each }
    }
    $after
}
"""
)
_MEMORY_STEPS: Mapping[str, tuple[str, str, str]] = {
    "copy": ("", "out[i] = in[i];", ""),
    "read": (
        "uint4 sum = make_uint4(0, 0, 0, 0);",
        "uint4 word = in[i]; sum.x += word.x; sum.y ^= word.y; sum.z += word.z; sum.w ^= word.w;",
        "if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u) out[blockIdx.x] = sum;",  # almost never, and nobody knows
    ),
    "write": (
        "unsigned s = mix((unsigned)first + 1u); uint4 word = make_uint4(s, mix(s), mix(s + 1u), mix(s + 2u));",
        "out[i] = word; word.x += 0x9e3779b9u; word.y ^= word.x; word.z += word.y; word.w ^= word.z;",
        "",
    ),
}  # fmt: skip
MEMORY_WAYS = tuple(_MEMORY_STEPS)


def memory_text(way: str, words: int) -> str:
    """A pass over words of 16 bytes, so many of them a lane. A launch is one pass: each byte is moved once.

    Lanes of a grid that is walked again and again meet their own words in the cache: blocks do not wait for each other.
    """
    before, each, after = _MEMORY_STEPS[way]
    return _MEMORY.substitute(words=words, before=before, each=each, after=after)


EMPTY_TEXT = 'extern "C" __global__ void probe() {}\n'
