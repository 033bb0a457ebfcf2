// Y[b, i, j] = sum over k of X[b, i, k] * W[b, j, k], 192 x 120 x 120 x 64, by tiles of 128 x 128 x 8.
extern "C" __global__ void __launch_bounds__(256)
batch_matmul_nt(const float* __restrict__ X, const float* __restrict__ W, float* __restrict__ Y)
{
    __shared__ float X_tile[8][128];
    __shared__ float W_tile[8][128];
    float sums[8][8];
    const int b = blockIdx.z;
    const int i_tile = blockIdx.y;
    const int j_tile = blockIdx.x;
    const int thread = threadIdx.x;

    #pragma unroll
    for (int ii = 0; ii < 8; ++ii) {
        #pragma unroll
        for (int jj = 0; jj < 8; ++jj) {
            sums[ii][jj] = 0.0f;
        }
    }
    for (int k_tile = 0; k_tile < 8; ++k_tile) {
        // fetch
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int row = (n * 256 + thread) / 8;
            const int column = (n * 256 + thread) % 8;
            X_tile[column][row] = i_tile * 128 + row < 120 ? X[(b * 120 + i_tile * 128 + row) * 64 + k_tile * 8 + column] : 0.0f;
        }
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int row = (n * 256 + thread) / 8;
            const int column = (n * 256 + thread) % 8;
            W_tile[column][row] = j_tile * 128 + row < 120 ? W[(b * 120 + j_tile * 128 + row) * 64 + k_tile * 8 + column] : 0.0f;
        }
        __syncthreads();
        // compute
        #pragma unroll
        for (int kk = 0; kk < 8; ++kk) {
            #pragma unroll
            for (int ii = 0; ii < 8; ++ii) {
                #pragma unroll
                for (int jj = 0; jj < 8; ++jj) {
                    sums[ii][jj] += X_tile[kk][ii * 16 + thread / 16] * W_tile[kk][jj * 16 + thread % 16];
                }
            }
        }
        __syncthreads();
    }
    // write-back
    #pragma unroll
    for (int ii = 0; ii < 8; ++ii) {
        #pragma unroll
        for (int jj = 0; jj < 8; ++jj) {
            if (i_tile * 128 + ii * 16 + thread / 16 < 120 && j_tile * 128 + jj * 16 + thread % 16 < 120) {
                Y[(b * 120 + i_tile * 128 + ii * 16 + thread / 16) * 120 + j_tile * 128 + jj * 16 + thread % 16] = sums[ii][jj];
            }
        }
    }
}
