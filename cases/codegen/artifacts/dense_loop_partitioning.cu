// Y[i, j] = sum over k of X[i, k] * W[j, k], 960 x 2304 x 770, by tiles of 128 x 128 x 4.
extern "C" __global__ void __launch_bounds__(256)
dense(const float* __restrict__ X, const float* __restrict__ W, float* __restrict__ Y)
{
    __shared__ float X_tile[4][128];
    __shared__ float W_tile[4][128];
    float sums[8][8];
    const int i_tile = blockIdx.y;
    const int j_tile = blockIdx.x;
    const int thread = threadIdx.x;

    if (i_tile < 7) {
        #pragma unroll
        for (int ii = 0; ii < 8; ++ii) {
            #pragma unroll
            for (int jj = 0; jj < 8; ++jj) {
                sums[ii][jj] = 0.0f;
            }
        }
        for (int k_tile = 0; k_tile < 192; ++k_tile) {
            // fetch
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int row = (n * 256 + thread) / 4;
                const int column = (n * 256 + thread) % 4;
                X_tile[column][row] = X[(i_tile * 128 + row) * 770 + k_tile * 4 + column];
            }
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int row = (n * 256 + thread) / 4;
                const int column = (n * 256 + thread) % 4;
                W_tile[column][row] = W[(j_tile * 128 + row) * 770 + k_tile * 4 + column];
            }
            __syncthreads();
            // compute
            #pragma unroll
            for (int kk = 0; kk < 4; ++kk) {
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
        {
            const int k_tile = 192;
            // fetch
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int row = (n * 256 + thread) / 4;
                const int column = (n * 256 + thread) % 4;
                if (k_tile * 4 + column < 770) {
                    X_tile[column][row] = X[(i_tile * 128 + row) * 770 + k_tile * 4 + column];
                }
            }
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int row = (n * 256 + thread) / 4;
                const int column = (n * 256 + thread) % 4;
                if (k_tile * 4 + column < 770) {
                    W_tile[column][row] = W[(j_tile * 128 + row) * 770 + k_tile * 4 + column];
                }
            }
            __syncthreads();
            // compute
            #pragma unroll
            for (int kk = 0; kk < 4; ++kk) {
                #pragma unroll
                for (int ii = 0; ii < 8; ++ii) {
                    #pragma unroll
                    for (int jj = 0; jj < 8; ++jj) {
                        if (k_tile * 4 + kk < 770) {
                            sums[ii][jj] += X_tile[kk][ii * 16 + thread / 16] * W_tile[kk][jj * 16 + thread % 16];
                        }
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
                Y[(i_tile * 128 + ii * 16 + thread / 16) * 2304 + j_tile * 128 + jj * 16 + thread % 16] = sums[ii][jj];
            }
        }
    } else {
        #pragma unroll
        for (int ii = 0; ii < 8; ++ii) {
            #pragma unroll
            for (int jj = 0; jj < 8; ++jj) {
                sums[ii][jj] = 0.0f;
            }
        }
        for (int k_tile = 0; k_tile < 192; ++k_tile) {
            // fetch
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int row = (n * 256 + thread) / 4;
                const int column = (n * 256 + thread) % 4;
                if (i_tile * 128 + row < 960) {
                    X_tile[column][row] = X[(i_tile * 128 + row) * 770 + k_tile * 4 + column];
                }
            }
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int row = (n * 256 + thread) / 4;
                const int column = (n * 256 + thread) % 4;
                W_tile[column][row] = W[(j_tile * 128 + row) * 770 + k_tile * 4 + column];
            }
            __syncthreads();
            // compute
            #pragma unroll
            for (int kk = 0; kk < 4; ++kk) {
                #pragma unroll
                for (int ii = 0; ii < 8; ++ii) {
                    #pragma unroll
                    for (int jj = 0; jj < 8; ++jj) {
                        if (i_tile * 128 + ii * 16 + thread / 16 < 960) {
                            sums[ii][jj] += X_tile[kk][ii * 16 + thread / 16] * W_tile[kk][jj * 16 + thread % 16];
                        }
                    }
                }
            }
            __syncthreads();
        }
        {
            const int k_tile = 192;
            // fetch
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int row = (n * 256 + thread) / 4;
                const int column = (n * 256 + thread) % 4;
                if (i_tile * 128 + row < 960 && k_tile * 4 + column < 770) {
                    X_tile[column][row] = X[(i_tile * 128 + row) * 770 + k_tile * 4 + column];
                }
            }
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int row = (n * 256 + thread) / 4;
                const int column = (n * 256 + thread) % 4;
                if (k_tile * 4 + column < 770) {
                    W_tile[column][row] = W[(j_tile * 128 + row) * 770 + k_tile * 4 + column];
                }
            }
            __syncthreads();
            // compute
            #pragma unroll
            for (int kk = 0; kk < 4; ++kk) {
                #pragma unroll
                for (int ii = 0; ii < 8; ++ii) {
                    #pragma unroll
                    for (int jj = 0; jj < 8; ++jj) {
                        if (i_tile * 128 + ii * 16 + thread / 16 < 960 && k_tile * 4 + kk < 770) {
                            sums[ii][jj] += X_tile[kk][ii * 16 + thread / 16] * W_tile[kk][jj * 16 + thread % 16];
                        }
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
                if (i_tile * 128 + ii * 16 + thread / 16 < 960) {
                    Y[(i_tile * 128 + ii * 16 + thread / 16) * 2304 + j_tile * 128 + jj * 16 + thread % 16] = sums[ii][jj];
                }
            }
        }
    }
}
