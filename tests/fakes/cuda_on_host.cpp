// Lets CUDA C++ kernels run on a CPU, one block after the other: threads are fibers that take turns at barriers.
// KERNELS names the file that holds them. Shared memory is NaN when a block starts.
#include <ucontext.h>

#include <cmath>
#include <vector>

struct Index {
    unsigned x, y, z;
};
static Index blockIdx, threadIdx;
static ucontext_t scheduler;
static std::vector<ucontext_t> fibers;
static std::vector<bool> waits;

#define __global__
#define __launch_bounds__(threads)
#define __shared__ static __attribute__((section("shared_memory"), used))
extern float __start_shared_memory[], __stop_shared_memory[];

static void __syncthreads() {
    const unsigned self = threadIdx.x;
    waits[self] = true;
    swapcontext(&fibers[self], &scheduler);
}

#include KERNELS

typedef void (*Kernel)(const float*, const float*, float*);
static Kernel kernel;
static const float *first, *second;
static float* result;

static void fiber() { kernel(first, second, result); }

// Runs one block. False where some threads wait at a barrier that others never reach.
static bool run_block(unsigned threads, std::vector<char>& stacks) {
    const unsigned size = stacks.size() / threads;
    for (float* word = __start_shared_memory; word != __stop_shared_memory; ++word) *word = NAN;
    for (unsigned thread = 0; thread < threads; ++thread) {
        getcontext(&fibers[thread]);
        fibers[thread].uc_stack.ss_sp = &stacks[thread * size];
        fibers[thread].uc_stack.ss_size = size;
        fibers[thread].uc_link = &scheduler;
        makecontext(&fibers[thread], fiber, 0);
    }
    for (unsigned waiting = threads; waiting;) {
        waiting = 0;
        for (unsigned thread = 0; thread < threads; ++thread) {
            threadIdx.x = thread;
            waits[thread] = false;
            swapcontext(&scheduler, &fibers[thread]);
            waiting += waits[thread];
        }
        if (waiting && waiting != threads) return false;
    }
    return true;
}

extern "C" int run(Kernel called, const float* x, const float* w, float* y, const unsigned* grid, unsigned threads) {
    kernel = called, first = x, second = w, result = y;
    fibers.assign(threads, ucontext_t());
    waits.assign(threads, false);
    std::vector<char> stacks(threads << 14);
    for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x)
                if (!run_block(threads, stacks)) return 1;
    return 0;
}
