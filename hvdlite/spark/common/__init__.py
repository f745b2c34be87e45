"""What the Estimators of all frameworks have in common: parameters, data, stores, models.

estimator  START HERE: data into the store, a job, a model out of it
params     parameters with Horovod's names, and how they are saved
backend    where an Estimator trains
store      a folder for data, checkpoints and logs
data       a DataFrame as Parquet files, of which each rank reads its part
rows       a rank's rows in memory, batch by batch
model      a trained model as a Transformer
"""
